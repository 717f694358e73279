package desk

// Demanded exports commands to the tests with real operators.
var Demanded = commands
