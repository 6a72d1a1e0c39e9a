package schematest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Validator holds the schemas. It is safe for concurrent use.
type Validator struct {
	dir string

	mu       sync.Mutex // protects the fields below
	compiler *jsonschema.Compiler
	// roots are the schemas' addresses up to a definition's name, by revision.
	roots    map[string]string
	compiled map[string]*jsonschema.Schema
}

var loaded sync.Map // folder → *Validator

// Load returns the validator of the schemas beside this checkout. Without them
// the test is skipped, or fails where TASKBRIDGE_E2E=require.
func Load(t testing.TB) *Validator {
	t.Helper()
	dir, err := find()
	if err != nil {
		if os.Getenv("TASKBRIDGE_E2E") == "require" && os.Getenv("TASKBRIDGE_SCHEMAS") != "skip" {
			t.Fatalf("%v; TASKBRIDGE_E2E=require forbids to skip this", err)
		}
		t.Skipf("skipped: %v", err)
	}
	if v, ok := loaded.Load(dir); ok {
		return v.(*Validator)
	}
	v, err := load(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := loaded.LoadOrStore(dir, v)
	return got.(*Validator)
}

// find walks up from the working directory.
func find() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		at := filepath.Join(dir, "shared", "schema")
		if _, err := os.Stat(filepath.Join(at, latestModern+".schema.json")); err == nil {
			return at, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("the official schemas are not there: no folder shared/schema beside the checkout")
		}
		dir = up
	}
}

func load(dir string) (*Validator, error) {
	v := &Validator{dir: dir, compiler: jsonschema.NewCompiler(), roots: map[string]string{}, compiled: map[string]*jsonschema.Schema{}}
	for _, name := range []string{"2024-11-05", "2025-03-26", "2025-06-18", latestLegacy, latestModern, extTasks} {
		raw, err := os.ReadFile(filepath.Join(dir, name+".schema.json"))
		if err != nil {
			return nil, fmt.Errorf("load schema: %w", err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			return nil, fmt.Errorf("load schema %s: %w", name, err)
		}
		top, ok := doc.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("load schema %s: no object", name)
		}
		url, at := "https://schema.invalid/"+name+".json", "#/$defs/"
		if id, ok := top["$id"].(string); ok {
			url = id
		}
		if _, ok := top["$defs"]; !ok {
			at = "#/definitions/"
		}
		if err := v.compiler.AddResource(url, doc); err != nil {
			return nil, fmt.Errorf("load schema %s: %w", name, err)
		}
		v.roots[name] = url + at
	}
	return v, nil
}

// Definition holds raw, any JSON value, against a named definition of a
// revision ("2025-11-25", "ext-tasks", …).
func (v *Validator) Definition(revision, name string, raw []byte) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("no JSON: %w", err)
	}
	return v.check(revision, name, doc)
}

func (v *Validator) check(revision, name string, doc any) error {
	s, err := v.definition(revision, name)
	if err != nil {
		return err
	}
	if err := s.Validate(doc); err != nil {
		return fmt.Errorf("no %s of %s: %w", name, revision, err)
	}
	return nil
}

func (v *Validator) definition(revision, name string) (*jsonschema.Schema, error) {
	root, ok := v.roots[revision]
	if !ok {
		return nil, fmt.Errorf("no schema of revision %q", revision)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if s := v.compiled[root+name]; s != nil {
		return s, nil
	}
	s, err := v.compiler.Compile(root + name)
	if err != nil {
		return nil, fmt.Errorf("revision %s has no usable definition %s: %w", revision, name, err)
	}
	v.compiled[root+name] = s
	return s, nil
}

// Validate reports raw, a whole JSON-RPC message, as an error of the test
// unless it keeps its definition. era is "legacy", "modern" or a revision;
// method is the message's own, for results and errors the one they answer.
func (v *Validator) Validate(t testing.TB, era, method string, kind Kind, raw []byte) {
	t.Helper()
	if err := v.Check(era, method, kind, raw); err != nil {
		const most = 2000
		shown := raw
		if len(shown) > most {
			shown = shown[:most]
		}
		t.Errorf("%s %s of %s: %v\n%s", era, kind, method, err, shown)
	}
}

// Check is Validate as an error.
func (v *Validator) Check(era, method string, kind Kind, raw []byte) error {
	revision := era
	switch era {
	case "legacy":
		revision = latestLegacy
	case "modern", "2026-06-30": // the same shapes under another date
		revision = latestModern
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("no JSON: %w", err)
	}
	m, ok := doc.(map[string]any)
	if !ok || m["jsonrpc"] != "2.0" {
		return errors.New("no JSON-RPC message")
	}
	if kind == Error {
		return v.checkError(revision, m)
	}
	if (kind == Result) != (m["result"] != nil) || (kind != Result) != (m["method"] != nil) || (kind == Notification) != (m["id"] == nil) {
		return fmt.Errorf("the message is no %s", kind)
	}
	if kind != Result && m["method"] != method {
		return fmt.Errorf("the message's method is %v", m["method"])
	}
	return v.checkRows(revision, method, kind, m)
}

func (v *Validator) checkRows(revision, method string, kind Kind, m map[string]any) error {
	rows := legacyRows
	if revision == latestModern {
		rows = modernRows
	}
	found := false
	for _, r := range rows {
		if r.Method != method || r.Kind != kind {
			continue
		}
		found = true
		if r.Kind == Result {
			if done, err := v.shapes(revision, method, m); done {
				return err
			}
		}
		if err := v.checkPart(revision, r, m); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("%s has no %s of that name", revision, kind)
	}
	if revision != latestModern {
		return nil
	}
	for _, r := range extRows {
		if r.Method == method && r.Kind == kind {
			if err := v.checkPart(extTasks, r, m); err != nil {
				return err
			}
		}
	}
	return v.inside(method, kind, m)
}

func (v *Validator) checkPart(revision string, r row, m map[string]any) error {
	if r.Part == "" {
		return v.check(revision, r.Definition, m)
	}
	return v.check(revision, r.Definition, m[r.Part])
}

// shapes: results of one method that have several forms (2025-11-25 tasks,
// Creating Tasks; 2026-07-28 basic/index, Result Responses).
func (v *Validator) shapes(revision, method string, m map[string]any) (done bool, err error) {
	result, ok := m["result"].(map[string]any)
	if !ok {
		return true, errors.New("result is no object")
	}
	if revision == latestModern {
		switch result["resultType"] {
		case "task":
			return true, v.check(extTasks, "CreateTaskResult", result)
		case "input_required":
			if method != "tools/call" && method != "prompts/get" && method != "resources/read" {
				return true, fmt.Errorf("%s cannot require input", method)
			}
			if result["inputRequests"] == nil && result["requestState"] == nil {
				return true, errors.New("input_required with neither inputRequests nor requestState")
			}
			return true, v.check(revision, "InputRequiredResult", result)
		}
		return false, nil
	}
	if _, task := result["task"]; task && (method == "tools/call" || method == "sampling/createMessage" || method == "elicitation/create") {
		return true, v.check(revision, "CreateTaskResult", result)
	}
	return false, nil
}

// inside: a modern task carries the result of its tools/call.
func (v *Validator) inside(method string, kind Kind, m map[string]any) error {
	var task map[string]any
	switch {
	case method == "tasks/get" && kind == Result:
		task, _ = m["result"].(map[string]any)
	case method == "notifications/tasks":
		task, _ = m["params"].(map[string]any)
	default:
		return nil
	}
	if payload, ok := task["result"]; ok {
		return v.check(latestModern, "CallToolResult", payload)
	}
	return nil
}

func (v *Validator) checkError(revision string, m map[string]any) error {
	name := "JSONRPCErrorResponse"
	if _, err := v.definition(revision, name); err != nil {
		name = "JSONRPCError" // before 2025-11-25
	}
	if err := v.check(revision, name, m); err != nil {
		return err
	}
	object, _ := m["error"].(map[string]any)
	code, _ := object["code"].(json.Number)
	if own := errorDefinitions[revision][code.String()]; own != "" {
		return v.check(revision, own, m)
	}
	return nil
}

// Methods lists the methods of a kind that a revision defines, by this
// package's table.
func Methods(era string, kind Kind) []string {
	rows := legacyRows
	if era == "modern" || era == latestModern {
		rows = modernRows
	}
	var out []string
	for _, r := range rows {
		if r.Kind == kind {
			out = append(out, r.Method)
		}
	}
	return out
}

// MethodsOf lists the methods of a union of messages (ClientRequest, …) as the
// schema itself has them.
func (v *Validator) MethodsOf(t testing.TB, revision, union string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(v.dir, revision+".schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	type message struct {
		Ref   string    `json:"$ref"`
		AnyOf []message `json:"anyOf"`
		Props struct {
			Method struct{ Const string } `json:"method"`
		} `json:"properties"`
	}
	var doc struct {
		Defs map[string]message `json:"$defs"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range doc.Defs[union].AnyOf {
		if method := doc.Defs[filepath.Base(m.Ref)].Props.Method.Const; method != "" {
			out = append(out, method)
		}
	}
	if len(out) == 0 {
		t.Fatalf("%s of %s lists no methods", union, revision)
	}
	return out
}
