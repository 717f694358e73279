package diag

import "fmt"

// enableStreamCommand returns the AWS CLI command that enables a stream with both images for a
// table.
func enableStreamCommand(table string) string {
	return "aws dynamodb update-table --table-name " + table +
		" --stream-specification StreamEnabled=true,StreamViewType=NEW_AND_OLD_IMAGES"
}

// StreamDisabledError returns the error for a table without an enabled stream.
func StreamDisabledError(table string) *Error {
	return &Error{
		Code:  StreamDisabled,
		What:  fmt.Sprintf("table %s has no stream", table),
		Cause: "DynamoDB Streams is not enabled for the table",
		Fix:   enableStreamCommand(table),
	}
}

// StreamViewError returns the error for a stream with a view type that lacks needed images. If
// reason is empty, the error has the general reason for the view type.
//
// The fix has two commands, because DynamoDB refuses to change the view type of an enabled stream
// (UpdateTable, StreamSpecification: "You receive a ValidationException if you try to enable a
// stream on a table that already has a stream",
// docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_UpdateTable.html).
func StreamViewError(table, view, reason string) *Error {
	if reason == "" {
		reason = "it does not contain the new image of a changed item, so there is nothing to copy"
	}
	return &Error{
		Code:  StreamViewUnusable,
		What:  fmt.Sprintf("the stream of table %s has view type %s", table, view),
		Cause: reason,
		Fix: "the view type of a stream cannot be changed; these commands start a new stream:\n" +
			"aws dynamodb update-table --table-name " + table + " --stream-specification StreamEnabled=false\n" +
			"aws dynamodb wait table-exists --table-name " + table + "\n" +
			enableStreamCommand(table),
	}
}
