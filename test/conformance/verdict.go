package conformance

// These are the services whose differences are judged.
const (
	// Embedded is the embedded DynamoDB of dynamodbtest.
	Embedded = "embedded"
	// OtherProject is dynoxide, in the version that the Makefile pins.
	OtherProject = "dynoxide"
)

// verdict says which side is right if a service differs from a case, and why.
type verdict struct{ right, why string }

// These are the sides that may be right.
const (
	documented = "AWS's documentation"
	// observed is for behaviour that the documentation omits and that others observed on AWS.
	observed = "AWS's observed behaviour; its documentation does not mention it"
)

// verdicts holds the verdicts by service and case. A difference without a verdict fails the check,
// and so does a verdict without a difference.
var verdicts = map[string]map[string]verdict{
	Embedded: {},
	OtherProject: {
		"update/ADD to and DELETE from sets": {documented, "Numbers compare by value, so DELETE of 1.0 removes 1. dynoxide compares their texts."},
		"update/ReturnValues of removed and created attributes": {documented, "UPDATED_NEW returns only the new values of updated attributes, and the key is never updated. " +
			"dynoxide returns the key if there are no others."},
		"update/a removal does not create a missing item":      removalsMakeNothing,
		"transaction/a removal does not create a missing item": removalsMakeNothing,
		"update/invalid operands of functions are rejected": {observed, "The operand of a function can be neither a sum nor list_append " +
			"(https://github.com/scylladb/scylladb, test/alternator/test_update_expression.py). dynoxide accepts both."},
		"update/names must begin with a letter": {documented, "A name that does not begin with a letter needs a placeholder. dynoxide accepts an underscore."},
		"update/the depth of paths and the indexes of lists are limited": {observed, "The service rejects the expression before it reads any item " +
			"(https://github.com/scylladb/scylladb, test/alternator/test_projection_expression.py). dynoxide searches the path in the item."},
		"query/KeyConditions with a filter and a projection": {observed, "Only KeyConditionExpression excludes KeyConditions " +
			"(https://github.com/scylladb/scylladb, test/alternator/test_filter_expression.py). dynoxide rejects them together with any expression."},
		"condition/attribute_type":             {documented, "The operand must be one of the type descriptors. dynoxide accepts anything, and the condition is false."},
		"condition/invalid syntax is rejected": {documented, "Names of functions are case-sensitive. dynoxide accepts Size for size."},
		"condition/invalid operands are rejected": {observed, "<, <=, > and >= accept only literal strings, numbers and binaries " +
			"(https://github.com/ExtendDB/extenddb/pull/216). dynoxide evaluates the condition, which is false."},
		"projection/invalid syntax is rejected":                          {observed, "AWS answers with the message of a syntax error. dynoxide also rejects the expression, but with another message."},
		"index/a global index returns only projected attributes":         {documented, "A query of a global index can request only projected attributes. dynoxide omits the others."},
		"transaction/gets in order":                                      {documented, "A projection returns only the attributes that it names, so the key only if it names it. dynoxide also returns the key."},
		"table/capacity must be given":                                   {documented, "PROVISIONED is the default and requires ProvisionedThroughput. dynoxide creates the table without it."},
		"table/a stream cannot be enabled twice":                         {documented, "The second request fails with a ValidationException. dynoxide accepts it."},
		"ttl/enabled":                                                    {documented, "A second change within an hour fails with a ValidationException. dynoxide accepts it."},
		"stream/records with both images":                                writesWithoutEffect,
		"stream/records with new images":                                 writesWithoutEffect,
		"stream/records with old images":                                 writesWithoutEffect,
		"stream/records with keys only":                                  writesWithoutEffect,
		"stream/writes without effect give no record":                    writesWithoutEffect,
		"stream/description":                                             {documented, "An open shard has no ending sequence number, and the description has the KeySchema. dynoxide returns an ending sequence number for an open shard."},
		"stream/unknown streams and shards are rejected":                 {documented, "A missing stream or shard gives a ResourceNotFoundException, and an ARN has at least 37 characters. dynoxide checks only the table's name."},
		"stream/an open shard has no child shards":                       {documented, "The filter CHILD_SHARDS returns the children of the shard. dynoxide ignores the filter and returns all shards."},
		"iterator/Limit":                                                 {documented, "Limit is from 1 to 1000. dynoxide accepts any number."},
		"stream/a disabled stream ends its shards and keeps its records": {documented, "The records of a disabled stream stay readable for 24 hours. dynoxide deletes them."},
		"stream/the stream of a deleted table stays readable":            {documented, "The stream of a deleted table stays readable for 24 hours. dynoxide deletes it."},
	},
}

var removalsMakeNothing = verdict{observed, "An update that only removes attributes does not create the item, and any path of a missing item can be removed " +
	"(https://github.com/scylladb/scylladb, test/alternator/test_update_expression.py). dynoxide creates an item with only its keys."}

var writesWithoutEffect = verdict{documented, "A PutItem or UpdateItem that changes nothing produces no record. dynoxide produces one, which is harmless: replicator applies the same image again."}
