package dynamodbtest

// Names of the services in the X-Amz-Target header.
const (
	serviceDynamoDB = "DynamoDB_20120810"
	serviceStreams  = "DynamoDBStreams_20120810"
)

// operations holds the handlers of all supported operations, by service and name.
var operations = map[string]map[string]handler{
	serviceDynamoDB: {
		"CreateTable":               operation((*Server).createTable),
		"DescribeTable":             operation((*Server).describeTable),
		"UpdateTable":               operation((*Server).updateTable),
		"DeleteTable":               operation((*Server).deleteTable),
		"ListTables":                operation((*Server).listTables),
		"ListTagsOfResource":        operation((*Server).listTags),
		"TagResource":               operation((*Server).tagResource),
		"UntagResource":             operation((*Server).untagResource),
		"PutResourcePolicy":         operation((*Server).putPolicy),
		"GetResourcePolicy":         operation((*Server).getPolicy),
		"DeleteResourcePolicy":      operation((*Server).deletePolicy),
		"DescribeEndpoints":         operation((*Server).describeEndpoints),
		"DescribeContinuousBackups": operation((*Server).describeBackups),
		"UpdateContinuousBackups":   operation((*Server).updateBackups),
		"ExportTableToPointInTime":  operation((*Server).startExport),
		"DescribeExport":            operation((*Server).describeExport),
		"ListExports":               operation((*Server).listExports),
		"DescribeLimits":            operation((*Server).describeLimits),
		"DescribeTimeToLive":        operation((*Server).describeTTL),
		"UpdateTimeToLive":          operation((*Server).updateTTL),
		"PutItem":                   operation((*Server).putItem),
		"GetItem":                   operation((*Server).getItem),
		"DeleteItem":                operation((*Server).deleteItem),
		"BatchWriteItem":            operation((*Server).batchWrite),
		"BatchGetItem":              operation((*Server).batchGet),
		"UpdateItem":                operation((*Server).updateItem),
		"Query":                     operation((*Server).query),
		"TransactWriteItems":        operation((*Server).transactWrite),
		"TransactGetItems":          operation((*Server).transactGet),
		"Scan":                      operation((*Server).scan),
	},
	serviceStreams: {
		"ListStreams":      operation((*Server).listStreams),
		"DescribeStream":   operation((*Server).describeStream),
		"GetShardIterator": operation((*Server).getShardIterator),
		"GetRecords":       operation((*Server).getRecords),
	},
}
