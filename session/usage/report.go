package usage

import "time"

// Verdict says whether the legacy dialect may be switched off on a route.
type Verdict string

const (
	// Needed: within the window somebody completed something in it, or held a
	// session open.
	Needed Verdict = "needed"
	// Attempted: nobody did, but somebody tried.
	Attempted Verdict = "attempted"
	// NotSeen: nobody spoke it.
	NotSeen Verdict = "not_seen"
	// Unknown: nobody used it as far as was seen, but that is less than the
	// window.
	Unknown Verdict = "unknown"
)

// Verdicts lists them all.
func Verdicts() []Verdict { return []Verdict{Needed, Attempted, NotSeen, Unknown} }

// Report says who needs the legacy dialect, as JSON has it. Names in it are as
// peers sent them, cut at 128 bytes: whoever shows them escapes them.
type Report struct {
	At     time.Time `json:"at"`
	Window Duration  `json:"window"`
	Routes []Route   `json:"routes"`
}

// Route is a report on one route.
type Route struct {
	Name    string  `json:"route"`
	Verdict Verdict `json:"verdict"`
	// Text is the verdict in words, of ours alone.
	Text string `json:"text"`
	// Earliest is when the legacy dialect may be switched off if nobody uses it
	// from now on and nothing is missed; zero with NotSeen and Attempted.
	Earliest time.Time `json:"earliest,omitzero"`
	Observed Observed  `json:"observed"`
	Clients  []Client  `json:"clients"`
	Servers  []Server  `json:"servers"`
	// Losses are those of all clients in the window, by name.
	Losses map[string]uint64 `json:"losses,omitempty"`
}

// Observed is how much of the window somebody counted.
type Observed struct {
	// From is when the time looked at begins: it is longer than the window by
	// the gaps, or as long as there was somebody to count.
	From time.Time `json:"from,omitzero"`
	// For is how much of it was observed, the window at most.
	For  Duration `json:"for"`
	Gaps []Gap    `json:"gaps,omitempty"` // the newest maxGaps
	// MoreGaps is how many older ones are not listed.
	MoreGaps int `json:"moreGaps,omitempty"`
}

// Gap is time that was not observed.
type Gap struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	For  Duration  `json:"for"`
	Why  string    `json:"why"` // one of the Gap words
}

// Why there is a gap.
const (
	GapNotRunning   = "not running"
	GapCountersLost = "counters lost"
)

const maxGaps = 20

// State says what a client means for the verdict.
type State string

const (
	StateUses   State = "uses legacy"  // makes the dialect needed
	StateTried  State = "tried legacy" // spoke it in the window and got nothing done
	StatePast   State = "used legacy"  // not within the window
	StateModern State = "modern"       // never
	StateLosses State = "only losses"  // of one that was not seen itself
)

// Client is who asked, as it names itself, for one principal.
type Client struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Principal is a keyed hash, 16 hex digits; empty: nobody vouches for it.
	Principal string `json:"principal"`
	// Folded: all those of the principal, or of the route, that are not told
	// apart because there are too many.
	Folded bool     `json:"folded,omitempty"`
	State  State    `json:"state"`
	Eras   []string `json:"eras"` // that it ever spoke
	Legacy Dialect  `json:"legacy,omitzero"`
	Modern Dialect  `json:"modern,omitzero"`
	// OpenSessions are those open now, Listening of them with an open stream.
	OpenSessions int `json:"openSessions,omitempty"`
	Listening    int `json:"listening,omitempty"`
	// LegacyOnly counts what of the legacy dialect alone it used in the window
	// (docs/mapping.md), Losses what could not be translated.
	LegacyOnly map[string]uint64 `json:"legacyOnly,omitempty"`
	Losses     map[string]uint64 `json:"losses,omitempty"`
	First      time.Time         `json:"firstSeen,omitzero"`
	Last       time.Time         `json:"lastSeen,omitzero"`
}

// Dialect is what was counted in one dialect: numbers of the window's days
// (UTC), moments of all time.
type Dialect struct {
	Completed uint64            `json:"completed"`
	Failed    uint64            `json:"failed"`
	Probes    uint64            `json:"probes"` // handshakes, pings, discovers
	Revisions map[string]uint64 `json:"revisions,omitempty"`
	First     time.Time         `json:"firstSeen,omitzero"`
	Last      time.Time         `json:"lastSeen,omitzero"`
	// LastUsed is when something was last had of it, an open session included.
	LastUsed time.Time `json:"lastUsed,omitzero"`
}

// Server is an upstream of a route.
type Server struct {
	Name string `json:"name"`
	// Speaks are the eras it was found to speak; none: not known.
	Speaks   []string `json:"speaks"`
	Versions []string `json:"versions,omitempty"`
	// Found is when that was found out.
	Found time.Time `json:"found,omitzero"`
	// Gone: it was taken out of the route and has nothing left there.
	Gone bool `json:"gone,omitempty"`
	// Legacy and Modern are what was asked of it in that dialect.
	Legacy Dialect `json:"legacy,omitzero"`
	Modern Dialect `json:"modern,omitzero"`
}

// LegacyAlone: clients of either era reach it in the legacy dialect only, so the
// proxy must go on speaking that toward it.
func (s Server) LegacyAlone() bool { return !s.Gone && len(s.Speaks) == 1 && s.Speaks[0] == "legacy" }

// Duration is written as people write it: 7d, 2d4h, 90s.
type Duration time.Duration

func (d Duration) String() string {
	if d <= 0 {
		return "0s"
	}
	return short(time.Duration(d))
}

// MarshalJSON gives seconds, which scripts compare.
func (d Duration) MarshalJSON() ([]byte, error) { return secondsText(time.Duration(d)), nil }

// UnmarshalJSON is the inverse.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	v, err := parseSeconds(raw)
	*d = Duration(v)
	return err
}
