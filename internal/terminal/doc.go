// Package terminal writes text or JSON for a command, and asks questions.
package terminal
