package config

// mark is where a value begins; both count from one, columns in characters.
type mark struct{ line, column int }
