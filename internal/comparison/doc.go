// Package comparison runs the command verify. Input is the ledger's data as read, Judge makes
// a Document of it, and render writes the document for people.
package comparison
