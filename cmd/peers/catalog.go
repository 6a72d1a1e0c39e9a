package peers

import "encoding/json"

// One resource and one prompt, the same in both eras; the modern server adds
// its own result fields.

func resourceList() json.RawMessage {
	return object("resources", []any{map[string]string{
		"uri": readmeURI, "name": "readme", "description": "About this server.", "mimeType": "text/plain"}})
}

func templateList() json.RawMessage { return json.RawMessage(`{"resourceTemplates":[]}`) }

// readResource reads a resource; missing is the era's code for an unknown one.
func readResource(params json.RawMessage, missing int) (json.RawMessage, *RPCError) {
	var p struct{ URI string }
	if json.Unmarshal(params, &p) != nil || p.URI == "" {
		return nil, rpcErrorf(CodeInvalidParams, "uri is missing")
	}
	if p.URI != readmeURI {
		return nil, &RPCError{Code: missing, Message: "Resource not found", Data: object("uri", p.URI)}
	}
	return object("contents", []any{map[string]string{
		"uri": readmeURI, "mimeType": "text/plain", "text": readmeText}}), nil
}

func promptList() json.RawMessage {
	return object("prompts", []any{object("name", helloPrompt, "description", "Say hello to somebody.",
		"arguments", json.RawMessage(`[{"name":"name","description":"Whom to greet.","required":false}]`))})
}

func getPrompt(params json.RawMessage) (json.RawMessage, *RPCError) {
	var p struct {
		Name      string
		Arguments map[string]string
	}
	if err := json.Unmarshal(params, &p); err != nil || p.Name == "" {
		return nil, rpcErrorf(CodeInvalidParams, "name is missing")
	}
	if p.Name != helloPrompt {
		return nil, rpcErrorf(CodeInvalidParams, "Unknown prompt: %s", p.Name)
	}
	text := "Say hello."
	if name := p.Arguments["name"]; name != "" {
		text = "Say hello to " + name + "."
	}
	return object("description", "Say hello to somebody.", "messages", []any{
		map[string]any{"role": "user", "content": map[string]string{"type": "text", "text": text}}}), nil
}
