package translate

import (
	"strconv"
	"testing"
)

// 2026-07-28 changelog, Minor changes 12: both numbers of three errors, in both
// directions, and where a number stays a server's own.
func TestErrorNumbers(t *testing.T) {
	for _, c := range []struct{ version, server, hub string }{
		{V20260630, `{"code":-32001,"message":"m"}`, `{"code":-32020,"message":"m"}`},
		{V20260630, `{"code":-32003,"message":"m"}`, `{"code":-32021,"message":"m"}`},
		{V20260630, `{"code":-32004,"message":"m","data":{"supported":["2026-06-30"]}}`, `{"code":-32022,"message":"m","data":{"supported":["2026-06-30"]}}`},
		{V20260630, `{"code":-32020,"message":"m"}`, `{"code":-32020,"message":"m"}`},
		{V20260630, `{"code":-32000,"message":"m"}`, `{"code":-32000,"message":"m"}`},
		{V20260728, `{"code":-32001,"message":"m","data":{"requiredCapabilities":{}}}`, `{"code":-32001,"message":"m","data":{"requiredCapabilities":{}}}`},
		{V20260728, `{"code":-32003,"message":"m"}`, `{"code":-32003,"message":"m"}`},
		{V20260728, `{"code":-32003,"message":"m","data":{"requiredCapabilities":{"roots":{}}}}`, `{"code":-32021,"message":"m","data":{"requiredCapabilities":{"roots":{}}}}`},
		{V20260728, `{"code":-32004,"message":"m","data":{"supported":[]}}`, `{"code":-32022,"message":"m","data":{"supported":[]}}`},
		{V20260728, `{"code":-32004,"message":"m","data":{"requiredCapabilities":{}}}`, `{"code":-32004,"message":"m","data":{"requiredCapabilities":{}}}`},
		{V20251125, `{"code":-32003,"message":"m","data":{"requiredCapabilities":{}}}`, `{"code":-32003,"message":"m","data":{"requiredCapabilities":{}}}`},
		{"", `{"code":-32004,"message":"m","data":{"supported":[]}}`, `{"code":-32004,"message":"m","data":{"supported":[]}}`},
	} {
		m := decode(t, `{"jsonrpc":"2.0","id":1,"error":`+c.server+`}`)
		same(t, c.version+" from the server", ErrorFromServer(m, c.version).Error().Raw(), c.hub)
	}
	for _, r := range codes {
		raw := []byte(`{"jsonrpc":"2.0","id":1,"error":{"code":` + strconv.Itoa(r.New) + `,"message":"m"}}`)
		back := decode(t, string(ErrorToClient(raw, V20260630)))
		if n, _ := back.Error().Get("code").Int(); n != int64(r.Old) {
			t.Errorf("%d became %d toward 2026-06-30, want %d", r.New, n, r.Old)
		}
		same(t, "there and back", ErrorFromServer(back, V20260630).Raw, string(raw))
		same(t, "2026-07-28", ErrorToClient(raw, V20260728), string(raw))
	}
	for _, raw := range []string{`{"jsonrpc":"2.0","id":1,"result":{"code":-32020}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"m"}}`, ``} {
		if got := string(ErrorToClient([]byte(raw), V20260630)); got != raw {
			t.Errorf("%s became %s", raw, got)
		}
	}
}
