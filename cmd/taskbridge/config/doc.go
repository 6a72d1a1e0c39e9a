// Package config reads the configuration file of taskbridge serve: YAML, whose
// keys are the words of the flags (docs/config.md).
//
// Parse is pure: it reads no files and no environment but through getenv.
// Everything known about a key is one row of a table in keys.go: how it is
// read, its default and its description. The JSON schema and the table of
// docs/config.md are made from the same rows.
package config
