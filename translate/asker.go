package translate

import "taskbridge/translate/jsonrpc"

// NameAsker puts who asks before the message of each elicitation that m shows a
// client: the request itself, or those among the inputRequests of a result or
// of a notification about a task. Everything else stays byte for byte.
func NameAsker(m *jsonrpc.Message, who string) []byte {
	e := m.Edit()
	name := func(method string, params jsonrpc.Value) {
		message := params.Get("message")
		if text, ok := message.Str(); ok && method == "elicitation/create" {
			e.Replace(message, jsonrpc.Quote("["+who+"] "+text))
		}
	}
	name(m.Method, m.Params())
	for _, body := range []jsonrpc.Value{m.Params(), m.Result()} {
		for _, entry := range body.Get("inputRequests").Members() {
			method, _ := entry.Get("method").Str()
			name(method, entry.Get("params"))
		}
	}
	return e.Bytes()
}
