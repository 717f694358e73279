package conformance

// Names of the services whose differences are judged.
const (
	// Embedded is the embedded DynamoDB of dynamodbtest.
	Embedded = "embedded"
	// OtherProject is dynoxide, of the version that the Makefile pins.
	OtherProject = "dynoxide"
)

// verdict says who is right where a service differs from a case, and why.
type verdict struct{ right, why string }

// Who may be right.
const (
	documented = "AWS's documentation"
	// observed is for what the documentation does not say, and others saw when they asked AWS.
	observed = "what AWS was seen to do; its documentation is silent"
)

// verdicts are by service and case. A difference without a verdict fails the check, and so does a verdict without a difference.
var verdicts = map[string]map[string]verdict{
	Embedded: {},
	OtherProject: {
		"update/ADD to and DELETE from sets": {documented, "Numbers are equal as numbers, so DELETE of 1.0 removes 1. dynoxide compares their texts."},
		"update/ReturnValues of what was removed or made": {documented, "UPDATED_NEW gives only the updated attributes as they are afterwards; the key is never one. " +
			"dynoxide gives the key if nothing else is left."},
		"update/removals leave an absent item absent":      removalsMakeNothing,
		"transaction/removals leave an absent item absent": removalsMakeNothing,
		"update/operands that functions do not take": {observed, "A function's operand is no sum, and list_append is no operand of a function " +
			"(https://github.com/scylladb/scylladb, test/alternator/test_update_expression.py). dynoxide takes both."},
		"update/names begin with a letter": {documented, "A name that begins with anything but a letter needs a placeholder. dynoxide takes an underscore."},
		"update/the depth of paths and the indexes of lists": {observed, "The expression itself is refused, before any item is looked at " +
			"(https://github.com/scylladb/scylladb, test/alternator/test_projection_expression.py). dynoxide looks for the path in the item."},
		"query/KeyConditions beside a filter and a projection": {observed, "Only KeyConditionExpression excludes KeyConditions " +
			"(https://github.com/scylladb/scylladb, test/alternator/test_filter_expression.py). dynoxide refuses all expressions beside them."},
		"condition/attribute_type": {documented, "The operand must be one of the type descriptors. dynoxide takes anything, and the condition is false."},
		"condition/syntax":         {documented, "Names of functions are case-sensitive. dynoxide takes Size for size."},
		"condition/operands that cannot be": {observed, "<, <=, > and >= take literal strings, numbers and binaries alone " +
			"(https://github.com/ExtendDB/extenddb/pull/216). dynoxide evaluates the condition, which is false."},
		"projection/syntax":                                 {observed, "AWS answers with the message of a syntax error. dynoxide refuses the expression, too, in other words."},
		"index/a global one gives what it projects":         {documented, "A query of a global index can only ask for what is projected into it. dynoxide leaves the rest out."},
		"transaction/gets in order":                         {documented, "A projection names what is wanted, and a key that it does not name is not given. dynoxide gives the key, too."},
		"table/capacity must be given":                      {documented, "PROVISIONED is the default, and then ProvisionedThroughput must be given. dynoxide makes the table."},
		"table/a stream is enabled once":                    {documented, "A ValidationException. dynoxide takes the request."},
		"ttl/enabled":                                       {documented, "A second change within an hour is a ValidationException. dynoxide takes it."},
		"stream/records with both images":                   writesWithoutEffect,
		"stream/records with new images":                    writesWithoutEffect,
		"stream/records with old images":                    writesWithoutEffect,
		"stream/records with keys only":                     writesWithoutEffect,
		"stream/writes without effect give no record":       writesWithoutEffect,
		"stream/description":                                {documented, "An open shard has no ending sequence number, and the description has the KeySchema. dynoxide gives an end to a shard that is still open."},
		"stream/what is not there":                          {documented, "ResourceNotFoundException for a stream or shard that is not there, and an ARN has at least 37 characters. dynoxide looks at the table's name alone."},
		"stream/child shards of an open shard":              {documented, "The filter CHILD_SHARDS gives the children of the shard. dynoxide does not know the filter and gives all shards."},
		"iterator/Limit":                                    {documented, "Limit is from 1 to 1000. dynoxide takes any."},
		"stream/disabled: its shards end, its records stay": {documented, "The records of a disabled stream stay readable for 24 hours. dynoxide forgets them."},
		"stream/of a table that was deleted":                {documented, "The stream of a deleted table stays readable for 24 hours. dynoxide forgets it."},
	},
}

var removalsMakeNothing = verdict{observed, "An update that only removes does not make the item, and any path of an absent item can be removed " +
	"(https://github.com/scylladb/scylladb, test/alternator/test_update_expression.py). dynoxide makes an item of keys alone."}

var writesWithoutEffect = verdict{documented, "A PutItem or UpdateItem that changes nothing gives no record. dynoxide gives one, which replicator applies as what it is: the same image again."}
