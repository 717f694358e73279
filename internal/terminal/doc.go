// Package terminal writes text or JSON, and asks questions.
package terminal
