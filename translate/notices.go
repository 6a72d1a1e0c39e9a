package translate

// sessionNotices are a server's notifications about itself and not about one
// request (2025-11-25 server/tools, prompts, resources: List Changed,
// Subscriptions). The specification has them on the GET stream; servers also
// put them on a request's.
var sessionNotices = map[string]bool{
	"notifications/tools/list_changed":     true,
	"notifications/prompts/list_changed":   true,
	"notifications/resources/list_changed": true,
	"notifications/resources/updated":      true,
}

// OfSession tells whether a legacy server's notification belongs to the session
// whichever stream brings it.
func OfSession(method string) bool { return sessionNotices[method] }

// serverNotices are the notifications either era has a server send, beside
// sessionNotices.
var serverNotices = map[string]bool{
	"notifications/progress":                   true,
	"notifications/message":                    true,
	"notifications/cancelled":                  true,
	"notifications/elicitation/complete":       true,
	"notifications/tasks":                      true,
	"notifications/tasks/status":               true,
	"notifications/subscriptions/acknowledged": true,
}

// OfExtension tells whether a server's notification is one nobody defined: it
// belongs to an extension both ends may know and goes on where it came.
func OfExtension(method string) bool { return !sessionNotices[method] && !serverNotices[method] }
