// Package comparison is what an operator asks of verifies: it begins them, works on their parts,
// shows how far they are and what they came to, pauses and resumes them. Input is what was read of
// the ledger, Judge makes a Document of it, render writes that for people.
package comparison
