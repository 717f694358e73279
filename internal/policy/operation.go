// Package policy lists every API operation used; writes least privileges. A test walks the code for
// the calls that it makes and fails if an operation is missing here or not used there, so that
// neither document can fall behind.
package policy

import (
	"slices"

	"github.com/dynamodb-bigtable/replicator/internal/config"
)

// Operation is a request that the program can send.
type Operation struct {
	// Service is "dynamodb", "dynamodbstreams", "s3", "sts", "kms", "bigtable", "pubsub", "storage"
	// or "monitoring"; Name is the operation as the service's reference calls it. Those of kms are
	// sent by DynamoDB and S3, in the caller's name.
	Service, Name string
	// Permissions are what it takes; none if it needs none.
	Permissions []string
	// Use says when it is sent.
	Use Use
}

// Use says when an operation is sent.
type Use uint8

// The uses.
const (
	Always      Use = iota // by `run`, whatever the configuration
	Creating               // by `run`, with target.create_missing
	Viewing                // by `run`, with target.view
	MakeView               // by `run`, with target.view and target.create_missing
	Finding                // with a pattern of tables, and by `init`
	Assuming               // with source.role_arn, by the identity that assumes the role
	Planning               // by `plan` alone
	Applying               // by `plan --apply` alone
	Watching               // by `run` and `plan`, with backfill.pause_above_target_cpu
	Relaying               // by `relay`, and where changes are applied from its topic
	FromTopic              // by `run --from pubsub`
	CuttingOver            // by the process that drives a cutover, with cutover.hooks
	Finalizing             // by `finalize`
	Importing              // by `run` and `backfill start`, for exports
	Exporting              // by `run`, for an export that `backfill start --request-export` wishes for
	FailingOver            // by `failover`
	Recovering             // by `plan` and `backfill start --request-export`
	Expiring               // by `plan`, for tables whose cells expire by garbage collection, and by `init`
	Decrypting             // for tables and buckets that a customer managed key encrypts
	Encrypting             // by `run`, for an export into such a bucket
)

// String says when, for the reference.
func (u Use) String() string { return useTexts[u] }

var useTexts = [...]string{
	Always:      "always",
	Creating:    "`target.create_missing`",
	Viewing:     "`target.view`",
	MakeView:    "`target.view` with `target.create_missing`",
	Finding:     "a pattern of tables, and `init`",
	Assuming:    "`source.role_arn`, by the identity that assumes it",
	Planning:    "`plan`",
	Applying:    "`plan --apply`",
	Watching:    "`backfill.pause_above_target_cpu` and `throttle --pause-above-target-cpu 70%`, by `run` and `plan`, in the project",
	Relaying:    "`relay`, and `run --from pubsub`; with `errors.park_to` a topic, `run`",
	FromTopic:   "`run --from pubsub`, of `relay.subscription` and `relay.dead_letter`",
	CuttingOver: "`cutover.hooks`, by the process that drives the cutover",
	Finalizing:  "`finalize`",
	Importing:   "`run` and `backfill start`, for exports",
	Exporting:   "`run`, for `backfill start --request-export`",
	FailingOver: "`failover`",
	Recovering:  "`plan` and `backfill start --request-export`",
	Expiring:    "`plan`, with `expire: gc`, and `init`",
	Decrypting:  "tables and buckets that a customer managed key encrypts",
	Encrypting:  "`run`, for `backfill start --request-export` into a bucket that a customer managed key encrypts",
}

// operations are all that the program can send. Sources: for AWS the service authorization reference
// (docs.aws.amazon.com/service-authorization/latest/reference/list_amazondynamodb.html), in which the operations of streams have
// the prefix dynamodb too; for Google the permissions of the Bigtable roles
// (cloud.google.com/iam/docs/roles-permissions/bigtable, .../monitoring). That CheckAndMutateRow takes mutateRows is what that page's roles
// imply, it names no permission of its own.
var operations = []Operation{
	{"dynamodb", "DescribeTable", []string{"dynamodb:DescribeTable"}, Always},
	{"dynamodb", "ListTables", []string{"dynamodb:ListTables"}, Finding},
	{"dynamodb", "Scan", []string{"dynamodb:Scan"}, Always},
	{"dynamodb", "GetItem", []string{"dynamodb:GetItem"}, Always},
	{"dynamodb", "PutItem", []string{"dynamodb:PutItem"}, CuttingOver},
	{"dynamodb", "DeleteItem", []string{"dynamodb:DeleteItem"}, CuttingOver},
	{"dynamodb", "DescribeTimeToLive", []string{"dynamodb:DescribeTimeToLive"}, Expiring},
	{"dynamodb", "DescribeContinuousBackups", []string{"dynamodb:DescribeContinuousBackups"}, Recovering},
	// DynamoDB writes the objects with the rights of who asks.
	// Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/S3DataExport_Requesting.html
	{"dynamodb", "ExportTableToPointInTime", []string{"dynamodb:ExportTableToPointInTime", "s3:AbortMultipartUpload", "s3:PutObject", "s3:PutObjectAcl"}, Exporting},
	{"dynamodb", "DescribeExport", []string{"dynamodb:DescribeExport"}, Importing},
	// Without s3:ListBucket an object that does not exist is answered as one that is denied; so is
	// it without storage.objects.list.
	// Sources: https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html and
	// https://cloud.google.com/storage/docs/json_api/v1/status-codes
	{"s3", "GetObject", []string{"s3:GetObject", "s3:ListBucket"}, Importing},
	{"dynamodbstreams", "DescribeStream", []string{"dynamodb:DescribeStream"}, Always},
	{"dynamodbstreams", "GetShardIterator", []string{"dynamodb:GetShardIterator"}, Always},
	{"dynamodbstreams", "GetRecords", []string{"dynamodb:GetRecords"}, Always},
	{"sts", "AssumeRole", []string{"sts:AssumeRole"}, Assuming},
	// DynamoDB and S3 decrypt with a customer managed key in the name of who reads. That to use a
	// key takes to see it is as the AWS CDK grants it. An upload in parts takes both.
	// Sources: https://docs.aws.amazon.com/kms/latest/developerguide/services-dynamodb.html and
	// https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html
	{"kms", "Decrypt", []string{"kms:Decrypt", "kms:DescribeKey"}, Decrypting},
	{"kms", "GenerateDataKey", []string{"kms:GenerateDataKey"}, Encrypting},

	{"bigtable", "PingAndWarm", []string{"bigtable.instances.ping"}, Always},
	{"bigtable", "ReadRows", []string{"bigtable.tables.readRows"}, Always},
	{"bigtable", "SampleRowKeys", []string{"bigtable.tables.sampleRowKeys"}, Always},
	{"bigtable", "CheckAndMutateRow", []string{"bigtable.tables.mutateRows"}, Always},
	{"bigtable", "GetAppProfile", []string{"bigtable.appProfiles.get"}, Always},
	{"bigtable", "GetTable", []string{"bigtable.tables.get"}, Always},
	{"bigtable", "CreateTable", []string{"bigtable.tables.create"}, Creating},
	{"bigtable", "ModifyColumnFamilies", []string{FencePermission}, Always}, // of the fence, whatever else may be created
	{"bigtable", "GetAuthorizedView", []string{"bigtable.authorizedViews.get"}, Viewing},
	{"bigtable", "CreateAuthorizedView", []string{"bigtable.authorizedViews.create"}, MakeView},
	{"bigtable", "DeleteAuthorizedView", []string{"bigtable.authorizedViews.delete"}, Finalizing},
	{"bigtable", "TestIamPermissions", nil, Planning}, // everybody may ask what he may
	{"bigtable", "ListClusters", []string{"bigtable.clusters.list"}, Planning},
	{"bigtable", "GenerateConsistencyToken", []string{"bigtable.tables.generateConsistencyToken"}, FailingOver},
	{"bigtable", "CheckConsistency", []string{"bigtable.tables.checkConsistency"}, FailingOver},
	{"bigtable", "CreateAppProfile", []string{"bigtable.appProfiles.create"}, Applying},

	{"pubsub", "Publish", []string{"pubsub.topics.publish"}, Relaying},
	{"pubsub", "GetTopic", []string{"pubsub.topics.get"}, Relaying},
	{"pubsub", "GetSubscription", []string{"pubsub.subscriptions.get"}, Relaying},
	{"pubsub", "Pull", []string{"pubsub.subscriptions.consume"}, FromTopic},
	{"pubsub", "Acknowledge", []string{"pubsub.subscriptions.consume"}, FromTopic},
	{"pubsub", "ModifyAckDeadline", []string{"pubsub.subscriptions.consume"}, FromTopic},

	{"storage", "objects.get", []string{"storage.objects.get", "storage.objects.list"}, Importing},

	{"monitoring", "ListTimeSeries", []string{"monitoring.timeSeries.list"}, Watching},
}

// FencePermission is what the fence takes. Without it a run goes on, and late writes are not
// refused.
const FencePermission = "bigtable.tables.update"

// Operations returns all operations that the program can send.
func Operations() []Operation { return slices.Clone(operations) }

// permissions are what the operations of these uses take, sorted, of one cloud's services.
func permissions(services []string, uses ...Use) []string {
	var out []string
	for _, o := range operations {
		if slices.Contains(services, o.Service) && slices.Contains(uses, o.Use) {
			out = append(out, o.Permissions...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// runUses are the uses of a worker under a configuration.
func runUses(cfg *config.Config) []Use {
	uses := []Use{Always}
	if cfg.Target.CreateMissing {
		uses = append(uses, Creating)
	}
	if cfg.Target.View != "" {
		uses = append(uses, Viewing)
		if cfg.Target.CreateMissing {
			uses = append(uses, MakeView)
		}
	}
	return uses
}
