// Package status shows the state of a migration. Read reads the ledger, Judge computes a Document
// from it without further requests, and Render writes the document for people. Commands, metrics
// and events all use this one document, so they cannot contradict each other.
package status
