package expression

import "fmt"

// Error is the error for an expression, or for an update of an item, that DynamoDB rejects. Its
// text is the message of a ValidationException, in DynamoDB's words. It may quote the expression,
// but never a value.
type Error struct{ Message string }

func (e *Error) Error() string { return e.Message }

func refuse(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

// SyntaxError is a mistake that ParseWhen finds in a condition.
type SyntaxError struct {
	// Offset is the position in the text, in bytes; the length of the text if something is missing
	// at its end.
	Offset int
	// Problem describes the mistake, such as `found "==" where a value or an attribute is
	// expected`.
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
