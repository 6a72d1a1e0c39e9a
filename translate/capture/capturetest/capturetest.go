// Package capturetest writes captures by hand, for tests.
package capturetest

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"taskbridge/translate"
	"taskbridge/translate/capture"
	"taskbridge/translate/jsonrpc"
)

// Start is the time of a capture's first record; each later one comes a
// millisecond after the one before it.
var Start = time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)

// Records reads a text, a record a line; empty lines and those that begin with
// # are skipped. It panics where it cannot read one.
//
//	@ session=a transport=http era=modern client=me/1 leg=server conn=c principal=p
//	                          what the records from here on have; era=modern gives
//	                          client's requests their _meta; NAME= takes one back
//	> s1 1 tools/call {…}     a request toward the server with id 1 on stream s1
//	> s1 - notifications/x {…} a notification; - as stream: none
//	< s1 1 = {…}              the result for id 1; ! instead of =: the error
//	> s1 GET                  HTTP without a message; < s1 405: the status
//	< s1 raw TEXT             a message as it stands
//	+ 100ms                   time passes
//	dropped 3                 frames were lost
func Records(text string) []*capture.Record {
	w := writer{at: Start, set: map[string]string{}}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := w.line(line); err != nil {
			panic(fmt.Sprintf("line %d: %s: %v", i+1, line, err))
		}
	}
	return w.out
}

// File is the records as a whole capture file.
func File(text string) []byte {
	var b bytes.Buffer
	w, err := capture.NewWriter(&b, capture.Header{By: "capturetest", Created: Start})
	for _, r := range Records(text) {
		if err == nil {
			err = w.Write(r)
		}
	}
	if err == nil {
		err = w.Close(false)
	}
	if err != nil {
		panic(err)
	}
	return b.Bytes()
}

type writer struct {
	out []*capture.Record
	at  time.Time
	set map[string]string
}

func (w *writer) line(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "@":
		for pair := range strings.FieldsSeq(rest) {
			name, value, ok := strings.Cut(pair, "=")
			if !ok {
				return fmt.Errorf("want name=value, not %q", pair)
			}
			w.set[name] = value
		}
		return nil
	case "+":
		d, err := time.ParseDuration(rest)
		w.at = w.at.Add(d)
		return err
	case "dropped":
		n, err := strconv.Atoi(rest)
		w.put(&capture.Record{Dropped: n})
		return err
	case ">", "<":
		return w.frame(word == ">", rest)
	}
	return fmt.Errorf("begins with none of @ + > < dropped")
}

func (w *writer) put(r *capture.Record) {
	r.Time, r.Line = w.at, len(w.out)+2
	w.at = w.at.Add(time.Millisecond)
	w.out = append(w.out, r)
}

func (w *writer) frame(toServer bool, rest string) error {
	stream, rest, _ := strings.Cut(rest, " ")
	r := &capture.Record{
		Leg: translate.ClientLeg, Dir: translate.ToClient, Transport: w.set["transport"], Stream: strings.TrimPrefix(stream, "-"),
		Conn: w.set["conn"], Session: w.set["session"], Principal: w.set["principal"], Header: http.Header{},
	}
	if toServer {
		r.Dir = translate.ToServer
	}
	if w.set["leg"] == "server" {
		r.Leg = translate.ServerLeg
	}
	defer w.put(r)
	first, body, _ := strings.Cut(rest, " ")
	if status, err := strconv.Atoi(rest); err == nil {
		r.Status = status
		return nil
	}
	switch rest {
	case "GET", "POST", "DELETE":
		r.Verb = rest
		return nil
	}
	if toServer {
		r.Verb = "POST"
	}
	if first == "raw" {
		r.Msg = []byte(body)
		return nil
	}
	what, body, _ := strings.Cut(body, " ")
	r.Msg = w.message(toServer, first, what, []byte(body))
	_, err := jsonrpc.Decode(r.Msg, jsonrpc.Limits{})
	return err
}

func (w *writer) message(toServer bool, id, what string, body []byte) []byte {
	msg := jsonrpc.NewObject().Str("jsonrpc", "2.0")
	if id != "-" {
		msg.Raw("id", []byte(id))
	}
	switch {
	case what == "=":
		return msg.Raw("result", body).Bytes()
	case what == "!":
		return msg.Raw("error", body).Bytes()
	}
	msg.Str("method", what)
	if len(body) > 0 {
		msg.Raw("params", body)
	}
	if !toServer || w.set["era"] != "modern" || id == "-" {
		return msg.Bytes()
	}
	name, version, _ := strings.Cut(w.set["client"], "/")
	m, err := jsonrpc.Decode(msg.Bytes(), jsonrpc.Limits{})
	if err != nil {
		panic(err)
	}
	return translate.RequestToModern(m, translate.ModernRequest{
		Version:    translate.LatestModern,
		ClientInfo: jsonrpc.NewObject().Str("name", name).Str("version", version).Bytes(),
	})
}
