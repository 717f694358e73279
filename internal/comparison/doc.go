// Package comparison runs the command verify. Input is what was read of the ledger, Judge makes a
// Document of it, render writes that for people.
package comparison
