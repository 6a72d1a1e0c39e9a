package session

// Principal is an authorization context: a hash over the kind of the
// credential and its value, each with its length (design: who may see what).
// It is safe to use as a key; where it must be shown, Handles.Mask turns it
// into a keyed hash. The zero value is no principal.
type Principal string
