package play

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"
)

// User is who a client asks and tells.
type User struct {
	Mu       sync.Mutex // protects the fields below
	Action   string     // the answer to every form
	Asked    []string
	Sampled  []string
	Logs     []string
	Changed  map[string]bool // the lists that did
	Updated  map[string]bool // the resources that were
	Progress []string
	OnNote   func() // called at each note of progress
}

// Note takes a note of progress.
func (u *User) Note(text string) {
	u.Mu.Lock()
	u.Progress = append(u.Progress, text)
	note := u.OnNote
	u.Mu.Unlock()
	if note != nil {
		note()
	}
}

// Until waits, 5 seconds at most. The condition is asked with Mu held.
func (u *User) Until(holds func() bool) {
	for range 100 {
		u.Mu.Lock()
		ok := holds()
		u.Mu.Unlock()
		if ok {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Answer is what the user says to a question: an action, and the content of a
// form that is filled in.
func (u *User) Answer(mode, message, url string, schema any) (action string, content Fields, err error) {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	if mode == "url" {
		u.Asked = append(u.Asked, message+": "+url)
		return u.Action, nil, nil
	}
	u.Asked = append(u.Asked, message)
	if u.Action != "accept" {
		return u.Action, nil, nil
	}
	content, err = filled(schema)
	return u.Action, content, err
}

// filled takes the defaults of a form's fields and knows two more.
func filled(schema any) (Fields, error) {
	raw, _ := json.Marshal(schema)
	var form struct {
		Properties map[string]struct{ Default any }
	}
	if err := json.Unmarshal(raw, &form); err != nil {
		return nil, err
	}
	content := Fields{}
	for name, property := range form.Properties {
		content[name] = property.Default
		if property.Default == nil {
			content[name] = map[string]string{"name": "Ada", "colour": "green"}[name]
		}
	}
	return content, nil
}

// Asking runs what may ask and tells what was asked.
func (u *User) Asking(run func() (text string, structured any, err error)) (Fields, error) {
	u.Mu.Lock()
	u.Asked, u.Sampled = []string{}, nil
	u.Mu.Unlock()
	said, structured, err := run()
	if err != nil {
		return nil, err
	}
	u.Mu.Lock()
	defer u.Mu.Unlock()
	result := Fields{"text": said, "asked": u.Asked}
	if u.Sampled != nil {
		result["sampled"] = u.Sampled
	}
	if structured != nil {
		result["structured"] = structured
	}
	return result, nil
}

// Touch has the server change everything; the user sees what comes of it.
func (u *User) Touch(touch func() error) (changed, updated []string, err error) {
	u.Mu.Lock()
	u.Changed, u.Updated = map[string]bool{}, map[string]bool{}
	u.Mu.Unlock()
	if err := touch(); err != nil {
		return nil, nil, err
	}
	u.Until(func() bool { return len(u.Changed) == 3 })
	time.Sleep(100 * time.Millisecond)
	u.Mu.Lock()
	defer u.Mu.Unlock()
	return sorted(u.Changed), sorted(u.Updated), nil
}

func sorted(set map[string]bool) []string {
	return append([]string{}, slices.Sorted(maps.Keys(set))...)
}

// Declined runs ask, whose question the user declines and then cancels.
func (u *User) Declined(ask func() (text string, err error)) (Fields, error) {
	result := Fields{}
	for member, action := range map[string]string{"declined": "decline", "cancelled": "cancel"} {
		u.Mu.Lock()
		u.Action = action
		u.Mu.Unlock()
		said, err := ask()
		if err != nil {
			return nil, err
		}
		result[member] = said
	}
	u.Mu.Lock()
	defer u.Mu.Unlock()
	u.Action = "accept"
	return result, nil
}
