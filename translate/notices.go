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
