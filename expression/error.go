package expression

import "fmt"

// Error is an expression, or an update of an item, that DynamoDB refuses. Its text is for the message of a ValidationException,
// in DynamoDB's words. It may quote the expression, never a value.
type Error struct{ Message string }

func (e *Error) Error() string { return e.Message }

func refuse(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

// SyntaxError is what ParseWhen finds wrong with a condition.
type SyntaxError struct {
	// Offset is the place in the text, in bytes from its beginning; the length of the text if something is missing at its end.
	Offset int
	// Problem is what is wrong there, such as `found "==" where a value or an attribute is expected`.
	Problem string
	// Suggestion is what to write instead; it may be empty.
	Suggestion string
}

func (e *SyntaxError) Error() string {
	text := fmt.Sprintf("at byte %d: %s", e.Offset, e.Problem)
	if e.Suggestion != "" {
		text += "; " + e.Suggestion
	}
	return text
}
