package desk

// What the tests with real operators compare them with.
var (
	Demanded      = commands
	ErrNotStarted = errNotStarted
)
