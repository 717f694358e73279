package cdc

// What DynamoDB can hold is one rule for all that reads it: its streams, its tables, and files.

// CheckText refuses text that DynamoDB cannot hold, of a value or a name.
func CheckText(text string) error {
	if notUTF8(text) {
		return errNotUTF8
	}
	return nil
}

// CheckSet refuses sets that DynamoDB never holds; other values pass.
func CheckSet(v Value) error { return checkSet(v) }
