package policy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/awshost"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/source"
)

// Policy is a policy document of AWS IAM, in the form that `aws iam put-role-policy` accepts.
// Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements.html
type Policy struct {
	Version   string
	Statement []Statement
}

// Statement allows actions on resources.
type Statement struct {
	Sid      string
	Effect   string
	Action   []string
	Resource []string
}

// AWS returns the policy of the identity that reads DynamoDB. Workers and plan need the same
// policy. The argument `region` is the source's region; if it is empty, the policy allows any
// region. A table without an ARN is in the account of the identity that reads it. So the policy allows
// the account of source.role_arn, or any account if there is none.
func AWS(cfg *config.Config, region string) Policy {
	var tables, streams, expiring []string
	for _, t := range cfg.Tables {
		arn := arnOf(cfg, region, &t)
		tables = append(tables, arn)
		streams = append(streams, arn+"/stream/*")
		if t.ExpiresByGC() || cfg.Cutover.RollbackHooks.Given() {
			expiring = append(expiring, arn)
		}
	}
	statements := []Statement{
		{"ReadTables", "Allow", permissions([]string{"dynamodb"}, Always, Recovering), tables},
		{"ReadStreams", "Allow", permissions([]string{"dynamodbstreams"}, Always), streams},
	}
	if cfg.Cutover.Hooks.Given() {
		// The keys of canaries are in the ledger. So canaries are never taken for data, and they
		// are removed after use.
		statements = append(statements, Statement{"WriteCanaries", "Allow", permissions([]string{"dynamodb"}, CuttingOver), tables})
	}
	if cfg.Cutover.RollbackHooks.Given() {
		statements = append(statements, Statement{"FollowRows", "Allow", permissions([]string{"dynamodb"}, Following), tables})
	}
	if cfg.Cutover.ByTablePolicy() {
		statements = append(statements, Statement{"FreezeTables", "Allow", permissions([]string{"dynamodb"}, Denying), tables},
			Statement{"AssumeProbe", "Allow", permissions([]string{"sts"}, Assuming), []string{cfg.Cutover.ProbeRole}})
	}
	statements = append(statements, importing(cfg, region)...)
	if key := cfg.Backfill.Export.KMSKey; key != "" {
		uses := slices.Concat(permissions([]string{"kms"}, Decrypting), permissions([]string{"kms"}, Encrypting))
		statements = append(statements, Statement{"EncryptExports", "Allow", uses, []string{keyARN(tables[0], key)}})
	}
	if len(expiring) > 0 {
		statements = append(statements, Statement{"ReadExpiry", "Allow", permissions([]string{"dynamodb"}, Expiring), expiring})
	}
	if cfg.HasPatterns() {
		// The action has no resources: an identity with this permission sees the names of all
		// tables.
		statements = append(statements, Statement{"FindTables", "Allow", permissions([]string{"dynamodb"}, Finding), []string{"*"}})
	}
	return document(statements...)
}

// importing returns the statements for the exports that the configuration names. The permissions
// are needed to read the exports, and to prove that they are complete.
func importing(cfg *config.Config, region string) (statements []Statement) {
	var objects, exports []string
	for _, t := range cfg.Tables {
		pattern := t
		pattern.From = t.Glob()
		address := cfg.LoadsFrom(pattern)
		arn := arnOf(cfg, region, &t)
		if source.Reported(address) {
			exports = append(exports, arn+"/export/*")
		}
		if folder, ok := source.InS3(source.Folder(address)); ok {
			bucket, _, _ := strings.Cut(folder, "/")
			objects = append(objects, bucketARN(arn, strings.TrimSuffix(folder, "/")+"/*"), bucketARN(arn, bucket))
		}
	}
	if len(exports) > 0 {
		statements = append(statements, Statement{"DescribeExports", "Allow", permissions([]string{"dynamodb"}, Importing), exports})
	}
	if len(objects) > 0 {
		slices.Sort(objects)
		statements = append(statements, Statement{"ReadExports", "Allow", permissions([]string{"s3"}, Importing), slices.Compact(objects)})
	}
	return statements
}

// keyARN returns the ARN of a KMS key. A key that is named by its id is in the account and region of
// the table.
func keyARN(table, key string) string {
	if strings.HasPrefix(key, "arn:") {
		return key
	}
	parts := strings.SplitN(table, ":", 6)
	return strings.Join([]string{parts[0], parts[1], "kms", parts[3], parts[4], "key/" + key}, ":")
}

// bucketARN returns the ARN of a bucket, or of objects in it, in the partition of a table.
func bucketARN(table, name string) string {
	return strings.Join([]string{"arn", strings.Split(table, ":")[1], "s3", "", "", name}, ":")
}

// Step is a role of source.role_arn. May is the policy that the identity before it needs to assume
// it. Trust is a trust policy that lets that identity assume it, if the role asks for an external
// id.
type Step struct {
	Role  string
	May   Policy
	Trust *Trust
}

// Roles returns the steps to the role that reads the source, in the order in which the roles are
// assumed. It returns nothing if no role is assumed.
func Roles(cfg *config.Config) (steps []Step) {
	before := unknownRole
	for i, role := range cfg.Source.Roles {
		step := Step{Role: role, May: document(Statement{"AssumeReader", "Allow", permissions([]string{"sts"}, Assuming), []string{role}})}
		if id := cfg.Source.ExternalIDOf(i); id != "" {
			trust := trusting(before)
			trust.Statement[0].Condition = map[string]map[string]string{"StringEquals": {"sts:ExternalId": id}}
			step.Trust = &trust
		}
		steps, before = append(steps, step), role
	}
	return steps
}

func document(statements ...Statement) Policy {
	return Policy{Version: "2012-10-17", Statement: statements}
}

// arnOf returns the ARN of an entry's tables: the configured one, or one that its name, the region
// and the identity determine.
func arnOf(cfg *config.Config, region string, t *config.Table) string {
	return cmp.Or(t.ARN(), tableARN(cfg.Source.Role(), region, t.Glob()))
}

// tableARN returns arn:PARTITION:dynamodb:REGION:ACCOUNT:table/NAME, with * for unknown parts.
// Source:
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazondynamodb.html
func tableARN(role, region, table string) string {
	partition, account := awshost.Partition(region), "*"
	if parts := strings.SplitN(role, ":", 6); len(parts) == 6 { // arn:PARTITION:iam::ACCOUNT:role/NAME
		partition, account = parts[1], parts[4]
	}
	if region == "" {
		region = "*"
	}
	return strings.Join([]string{"arn", partition, "dynamodb", region, account, "table/" + table}, ":")
}
