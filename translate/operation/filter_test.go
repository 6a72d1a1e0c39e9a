package operation_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"taskbridge/translate"
	"taskbridge/translate/capture/capturetest"
	"taskbridge/translate/operation"
)

func TestFilter(t *testing.T) {
	ops := operation.Gather(slices.Values(capturetest.Records(legacyOpen+`
> a 1 tools/call {"name":"my tool","task":{}}
< a 1 = {"task":{"taskId":"T-77","status":"working"}}
> b "x2" tasks/get {"taskId":"T-77"}
< b "x2" = {"taskId":"T-77","status":"cancelled"}
> c 3 tools/call {"name":"plain","arguments":{"City":"Berlin"}}
< c 503
@ session= era=modern
> d 4 tools/list {}
< d 4 ! {"code":-1,"message":"no http://x"}
`)), translate.ClientLeg)
	ops[1].Losses = []translate.Loss{translate.LossRequestedTTL}
	for _, c := range []struct{ filter, want string }{
		{"", "1 2 3 4"},
		{`tool:"my tool"`, "2"},
		{`tool:*`, "2 3"},
		{`tool:pl*n`, "3"},
		{"method:tools/*", "2 3 4"},
		{"method:tasks/get", "2"},
		{"method:tools/call status:503", "3"},
		{"status:refused", "3"},
		{"status:cancelled", "2"},
		{"status:error", "4"},
		{"id:3", "3"},
		{"id:x2", "2"},
		{`id:"\"x2\""`, "2"},
		{"task:T-*", "2"},
		{"kind:open", "1"},
		{"kind:task", "2"},
		{"side:client", "1 2 3 4"},
		{"side:server", ""},
		{"era:modern", "4"},
		{"era:2025-11-25", "1 2 3"},
		{"loss:requested_ttl", "2"},
		{"loss:*", "2"},
		{"berlin", "3"},
		{`"http://x"`, "4"},
		{"  era:legacy   plain ", "3"},
	} {
		f, err := operation.ParseFilter(c.filter)
		if err != nil {
			t.Errorf("%s: %v", c.filter, err)
			continue
		}
		var got []string
		for _, op := range ops {
			if f.Match(op) {
				got = append(got, fmt.Sprint(op.N))
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %v, want %s", c.filter, got, c.want)
		}
	}
	for _, bad := range []string{"tol:x", "tool:", `"open`, "http://x"} {
		if _, err := operation.ParseFilter(bad); err == nil {
			t.Errorf("%s passes", bad)
		}
	}
}
