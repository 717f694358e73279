// Package status shows the state of a migration. Read reads the ledger, Judge computes a Document
// from it without further requests, and Render writes the document as text. Commands, metrics and
// events all use the same Document, so they cannot contradict each other.
package status
