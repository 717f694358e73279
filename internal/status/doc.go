// Package status shows the state of a migration. Read takes what the ledger holds, Judge makes a
// Document of it without asking anybody, and Render writes that for people. Commands, metrics and
// events all follow from one such document, so that they cannot contradict each other.
package status
