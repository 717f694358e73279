package desk

// Demanded is what the tests with real operators compare them with.
var Demanded = commands
