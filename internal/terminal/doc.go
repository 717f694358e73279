// Package terminal is where a command writes and in which form: text or JSON, with colours or without, and
// the questions that it asks of whoever sits there.
package terminal
