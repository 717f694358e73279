// Package comparison runs the command `verify`. An Operator reads the ledger. Its method judge
// makes a Document of the data, and render writes the document as text.
package comparison
