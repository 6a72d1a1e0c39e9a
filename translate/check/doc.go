// Package check holds a capture against the specification: every record is
// looked at once, in the order recorded, and what breaks a rule is a [Finding]
// that names the record, the rule, who is at fault and where the specification
// says so.
//
// The rules are rows: [Rules] lists them, definitions.go has the members of
// every message by revision, methods.go the methods. What is remembered of
// earlier records is bounded, so a capture of any length can be checked; where
// something was forgotten, or a recording has a gap, the rules that would need
// it keep quiet.
//
// The package is pure.
package check
