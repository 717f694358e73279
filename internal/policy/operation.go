// Package policy lists every API operation used; writes least privileges. A test searches the code
// for calls. It fails if an operation is missing in this package, or is not used in the code. So
// the privileges stay up to date.
package policy

import (
	"slices"

	"github.com/dynamodb-bigtable/replicator/internal/config"
)

// Operation is a request that the program can send.
type Operation struct {
	// Service is "dynamodb", "dynamodbstreams", "s3", "sts", "kms", "bigtable", "pubsub", "storage"
	// or "monitoring". Name is the operation's name in the service's reference. DynamoDB and S3
	// send the operations of kms on behalf of the caller.
	Service, Name string
	// Permissions are the required permissions; empty if the operation requires none.
	Permissions []string
	// Use is the situation in which the program sends the operation.
	Use Use
}

// Use is a situation in which the program sends an operation.
type Use uint8

// The situations in which operations are sent.
const (
	Always      Use = iota // by `run`, with every configuration
	Creating               // by `run`, with target.create_missing
	Viewing                // by `run`, with target.view
	MakeView               // by `run`, with target.view and target.create_missing
	Finding                // with a pattern of tables, and by `init`
	Assuming               // with source.role_arn, by the identity that assumes the role
	Planning               // only by `plan`
	Applying               // only by `plan --apply`
	Watching               // by `run` and `plan`, with backfill.pause_above_target_cpu
	Publishing             // by `relay`, and by appliers for the dead-letter topic
	Relaying               // by `relay`, and if changes are applied from its topic
	FromTopic              // by `run --from pubsub`
	CuttingOver            // by the process that drives a cutover, with cutover.hooks
	Denying                // by the process that drives a cutover, with cutover.freeze: table_policy
	Probing                // with cutover.probe_role_arn, by that role
	Finalizing             // by `finalize`
	Importing              // by `run` and `backfill start`, for exports
	Exporting              // by `run`, for an export that `backfill start --request-export` requests
	FailingOver            // by `failover`
	Recovering             // by `plan` and `backfill start --request-export`
	// By `plan`, for tables with cells that expire by garbage collection, and by `init`.
	Expiring
	Decrypting // for tables and buckets that are encrypted with a customer managed key
	// By `run`, for an export into a bucket that is encrypted with a customer managed key.
	Encrypting
	Following // by `run`, with cutover.rollback_hooks, while a fallback is kept
)

// String describes the use in words, for the reference documentation.
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
	Publishing:  "`relay`, to `relay.pubsub_topic`; `run --from pubsub`, only to the dead-letter topic; `run`, if `errors.park_to` is a topic",
	Relaying:    "`relay`, and `run --from pubsub`; `run`, if `errors.park_to` is a topic",
	FromTopic:   "`run --from pubsub`, on `relay.subscription` and `relay.dead_letter`; `relay dead-letter`, only on `relay.dead_letter`",
	CuttingOver: "`cutover.hooks`, by the process that drives the cutover",
	Denying:     "`cutover.freeze` table_policy, by the process that drives the cutover",
	Probing:     "`cutover.probe_role_arn`, by that role",
	Finalizing:  "`finalize`",
	Importing:   "`run` and `backfill start`, for exports",
	Exporting:   "`run`, for `backfill start --request-export`",
	FailingOver: "`failover`",
	Recovering:  "`plan` and `backfill start --request-export`",
	Expiring:    "`plan`, with `expire: gc`, and `init`; `cutover.rollback_hooks`",
	Decrypting:  "tables and buckets that a customer managed key encrypts",
	Following:   "`cutover.rollback_hooks`, by `run`, while a fallback is kept",
	Encrypting:  "`run`, for `backfill start --request-export` into a bucket that a customer managed key encrypts",
}

// operations lists every operation that the program can send. The source for AWS is the service
// authorization reference
// (docs.aws.amazon.com/service-authorization/latest/reference/list_amazondynamodb.html). There, the
// operations of streams also have the prefix dynamodb. The source for Google is the list of
// permissions of the Bigtable roles (cloud.google.com/iam/docs/roles-permissions/bigtable,
// .../monitoring). That page names no permission for CheckAndMutateRow, but its roles imply that
// the operation needs mutateRows.
var operations = []Operation{
	{"dynamodb", "DescribeTable", []string{"dynamodb:DescribeTable"}, Always},
	{"dynamodb", "ListTables", []string{"dynamodb:ListTables"}, Finding},
	{"dynamodb", "Scan", []string{"dynamodb:Scan"}, Always},
	{"dynamodb", "GetItem", []string{"dynamodb:GetItem"}, Always},
	{"dynamodb", "PutItem", []string{"dynamodb:PutItem"}, CuttingOver},
	{"dynamodb", "DeleteItem", []string{"dynamodb:DeleteItem"}, CuttingOver},
	{"dynamodb", "UpdateItem", []string{"dynamodb:UpdateItem"}, Following},
	{"dynamodb", "GetResourcePolicy", []string{"dynamodb:GetResourcePolicy"}, Denying},
	{"dynamodb", "PutResourcePolicy", []string{"dynamodb:PutResourcePolicy"}, Denying},
	{"dynamodb", "DeleteResourcePolicy", []string{"dynamodb:DeleteResourcePolicy"}, Denying},
	// DynamoDB has no permission for transactions, but one for each of their parts. The probe also
	// sends PutItem.
	{"dynamodb", "TransactWriteItems", []string{"dynamodb:PutItem"}, Probing},
	{"dynamodb", "DescribeTimeToLive", []string{"dynamodb:DescribeTimeToLive"}, Expiring},
	{"dynamodb", "DescribeContinuousBackups", []string{"dynamodb:DescribeContinuousBackups"}, Recovering},
	// DynamoDB writes the objects with the caller's permissions. Source:
	// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/S3DataExport_Requesting.html
	{"dynamodb", "ExportTableToPointInTime", []string{"dynamodb:ExportTableToPointInTime", "s3:AbortMultipartUpload", "s3:PutObject", "s3:PutObjectAcl"}, Exporting},
	{"dynamodb", "DescribeExport", []string{"dynamodb:DescribeExport"}, Importing},
	// Without s3:ListBucket or storage.objects.list, the service answers that access is denied,
	// even if the object is missing. Sources:
	// https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html and
	// https://cloud.google.com/storage/docs/json_api/v1/status-codes
	{"s3", "GetObject", []string{"s3:GetObject", "s3:ListBucket"}, Importing},
	{"dynamodbstreams", "DescribeStream", []string{"dynamodb:DescribeStream"}, Always},
	{"dynamodbstreams", "GetShardIterator", []string{"dynamodb:GetShardIterator"}, Always},
	{"dynamodbstreams", "GetRecords", []string{"dynamodb:GetRecords"}, Always},
	{"sts", "AssumeRole", []string{"sts:AssumeRole"}, Assuming},
	{"sts", "GetCallerIdentity", nil, Denying}, // any identity may ask who it is
	// DynamoDB and S3 use a customer managed key on behalf of the reader. The reader also needs the
	// permission to describe the key; the AWS CDK grants both permissions, too. A multipart upload
	// needs both permissions. Sources:
	// https://docs.aws.amazon.com/kms/latest/developerguide/services-dynamodb.html and
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
	{"bigtable", "ModifyColumnFamilies", []string{FencePermission}, Always}, // for the fence, regardless of target.create_missing
	{"bigtable", "UpdateTable", []string{FencePermission}, Applying},        // to enable a change stream
	{"bigtable", "GetAuthorizedView", []string{"bigtable.authorizedViews.get"}, Viewing},
	{"bigtable", "CreateAuthorizedView", []string{"bigtable.authorizedViews.create"}, MakeView},
	{"bigtable", "DeleteAuthorizedView", []string{"bigtable.authorizedViews.delete"}, Finalizing},
	// No permission, because any identity may read its own permissions.
	{"bigtable", "TestIamPermissions", nil, Planning},
	{"bigtable", "ListClusters", []string{"bigtable.clusters.list"}, Planning},
	{"bigtable", "GenerateConsistencyToken", []string{"bigtable.tables.generateConsistencyToken"}, FailingOver},
	{"bigtable", "CheckConsistency", []string{"bigtable.tables.checkConsistency"}, FailingOver},
	{"bigtable", "CreateAppProfile", []string{"bigtable.appProfiles.create"}, Applying},

	{"pubsub", "Publish", []string{"pubsub.topics.publish"}, Publishing},
	{"pubsub", "GetTopic", []string{"pubsub.topics.get"}, Relaying},
	{"pubsub", "GetSubscription", []string{"pubsub.subscriptions.get"}, Relaying},
	{"pubsub", "Pull", []string{"pubsub.subscriptions.consume"}, FromTopic},
	{"pubsub", "Acknowledge", []string{"pubsub.subscriptions.consume"}, FromTopic},
	{"pubsub", "ModifyAckDeadline", []string{"pubsub.subscriptions.consume"}, FromTopic},

	{"storage", "objects.get", []string{"storage.objects.get", "storage.objects.list"}, Importing},

	{"monitoring", "ListTimeSeries", []string{"monitoring.timeSeries.list"}, Watching},
}

// FencePermission is the permission that the fence needs. Without this permission a run continues,
// but late writes are not rejected.
const FencePermission = "bigtable.tables.update"

// Operations returns all operations that the program can send.
func Operations() []Operation { return slices.Clone(operations) }

// permissions returns the sorted permissions that operations with these uses need, for the given
// services.
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

// runUses returns the uses of a worker under a configuration.
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
