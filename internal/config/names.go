package config

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/pattern"
)

// formatVersion is the version of the configuration format that this package reads.
const formatVersion = 1

var (
	migrationName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

	// dynamoDBTable is the character set of table names; A name has 3 to 255 characters
	// (docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.NamingRulesDataTypes.html).
	dynamoDBTable = regexp.MustCompile(`^[a-zA-Z0-9_.-]+$`)

	// bigtableTable combines the form of Table.name with the limit of CreateTableRequest.table_id,
	// 50 characters (cloud.google.com/bigtable/docs/reference/admin/rpc/google.bigtable.admin.v2).
	bigtableTable = regexp.MustCompile(`^[_a-zA-Z0-9][-_.a-zA-Z0-9]{0,49}$`)

	// authorizedView is the form of an authorized view's id. It is the same as for tables,
	// according to CreateAuthorizedViewRequest on the page above.
	authorizedView = bigtableTable

	// resourceID accepts all ids of projects (even example.com:shop), instances and app profiles.
	// Google's own rules are stricter, but emulators accept any id.
	resourceID = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9_.:-]{0,99}$`)

	awsRegion = regexp.MustCompile(`^[a-z0-9-]{2,40}$`)
	// pubsubTopic is the form of a topic's name
	// (cloud.google.com/pubsub/docs/pubsub-basics#resource_names). A topic must not begin with
	// goog; the service checks that.
	parkTo             = regexp.MustCompile(`^(state|pubsub://projects/[a-zA-Z0-9_][a-zA-Z0-9_.:-]{0,99}/topics/[A-Za-z][A-Za-z0-9_.~+%-]{2,254})$`)
	pubsubTopic        = regexp.MustCompile(`^projects/[a-zA-Z0-9_][a-zA-Z0-9_.:-]{0,99}/topics/[A-Za-z][A-Za-z0-9_.~+%-]{2,254}$`)
	pubsubSubscription = regexp.MustCompile(`^projects/[a-zA-Z0-9_][a-zA-Z0-9_.:-]{0,99}/subscriptions/[A-Za-z][A-Za-z0-9_.~+%-]{2,254}$`)
	principalARN       = regexp.MustCompile(`^arn:aws[a-z-]*:iam::[0-9]{12}:(role|user)/[\w+=,.@/-]{1,576}$`)
	// externalID is the form of an external id, of 2 to 1,224 characters
	// (docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html).
	externalID = regexp.MustCompile(`^[\w+=,.@:/-]{2,}$`)
	// kmsKey is an id of a key, or its ARN, which a key of another account needs.
	kmsKey     = regexp.MustCompile(`^(arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/)?(mrk-)?[0-9a-f-]{32,36}$`)
	awsAccount = regexp.MustCompile(`^[0-9]{12}$`)
	roleARN    = regexp.MustCompile(`^arn:aws[a-z-]*:iam::[0-9]{12}:role/[\w+=,.@/-]{1,576}$`)
)

// checks are the named checks of the schema's strings. A check is never called with an empty text.
var checks = map[string]func(string) *fault{
	"version":        checkVersion,
	"name":           checkName,
	"dynamodb_table": checkDynamoDBTable,
	"bigtable_table": checkBigtableTable,
	"target_table":   checkTargetTable,
	"resource": form(resourceID, "an id has at most 100 letters, digits, '-', '_', '.' and ':'",
		"write only the id, without a path such as projects/…"),
	"region": form(awsRegion, "an AWS region has only lower-case letters, digits and '-'", "write it like eu-west-1"),
	"topic": form(pubsubTopic, "a topic is written projects/PROJECT/topics/TOPIC; TOPIC has 3 to 255 letters, digits and -_.~+%, begins with a letter but not with goog",
		"write it like projects/my-project/topics/changes"),
	"park_to": form(parkTo, "parked items are always kept in the state table, and can also be published to a topic",
		"write state, or a topic like pubsub://projects/my-project/topics/parked"),
	"subscription": form(pubsubSubscription, "a subscription is written projects/PROJECT/subscriptions/SUBSCRIPTION; SUBSCRIPTION has 3 to 255 letters, digits and -_.~+%, and begins with a letter",
		"write it like projects/my-project/subscriptions/appliers"),
	"role":        form(roleARN, "this is not the ARN of an IAM role", "write it like arn:aws:iam::111122223333:role/replicator"),
	"external_id": checkExternalID,
	"kms_key":     form(kmsKey, "this is neither the id nor the ARN of a KMS key", "write it like arn:aws:kms:eu-west-1:111122223333:key/ID; for an alias, aws kms describe-key --key-id alias/NAME prints it"),
	"account":     form(awsAccount, "the id of an AWS account has 12 digits", "write it like 111122223333"),
	"principal":   form(principalARN, "this is not the ARN of an IAM role or user", "write it like arn:aws:iam::111122223333:role/batch, without wildcards"),
	"listen":      checkListen,
	"hook":        checkHook,
	"address":     checkAddress,
	"variable":    form(variableName, "this is not the name of an environment variable", "write only its name, like PAGERDUTY_KEY"),
	"capacity":    checkCapacity,
	"images":      checkImages,
	"destination": form(destination, "DynamoDB writes exports to S3, and this names no bucket there",
		"write s3://BUCKET or s3://BUCKET/PREFIX"),
	"percent": checkPercent,
	// The content is checked when the mapping is parsed.
	"mapping": checkMappingText,
	// The parser of conditions checks the text and bounds its length.
	"condition": func(string) *fault { return nil },
	"view": form(authorizedView, "the id of an authorized view has 1 to 50 letters, digits, '_', '-' and '.', and begins with a letter, a digit or '_'",
		"write only the id, like app"),
}

func form(rule *regexp.Regexp, cause, fix string) func(string) *fault {
	return func(s string) *fault {
		if rule.MatchString(s) {
			return nil
		}
		return &fault{diag.InvalidValue, "", cause, fix}
	}
}

// longestText is the maximum length of a string in a mapping: that of a row key, 4 KiB.
const longestText = 4096

func checkMappingText(s string) *fault {
	if len(s) <= longestText {
		return nil
	}
	return &fault{diag.InvalidValue, "", fmt.Sprintf("the text has %d bytes; %d are allowed", len(s), longestText), "write a shorter text"}
}

func checkVersion(s string) *fault {
	if s == strconv.Itoa(formatVersion) {
		return nil
	}
	return &fault{diag.UnknownVersion, "", fmt.Sprintf("this program reads version %d of the format", formatVersion),
		fmt.Sprintf("write version: %d, or use the release that introduced the other format", formatVersion)}
}

func checkName(s string) *fault {
	const longest = 40 // the name prefixes every ledger row and labels every metric
	if migrationName.MatchString(s) && len(s) <= longest {
		return nil
	}
	fix := "write it like acme-2026"
	if lower := strings.ToLower(strings.ReplaceAll(s, "_", "-")); migrationName.MatchString(lower) && len(lower) <= longest {
		fix = "write it like " + lower
	}
	return &fault{diag.InvalidValue, "",
		fmt.Sprintf("a name has at most %d lower-case letters, digits and '-', and neither begins nor ends with '-'", longest), fix}
}

func checkDynamoDBTable(s string) *fault {
	switch {
	case isARN(s):
		return checkTableARN(s)
	case pattern.Is(s):
		return nil // parsed by checkPattern
	case !dynamoDBTable.MatchString(s):
		return &fault{diag.InvalidValue, "", "DynamoDB table names have only letters, digits, '_', '-' and '.'", "write the name as `aws dynamodb list-tables` prints it"}
	case len(s) < 3 || len(s) > 255:
		return &fault{diag.InvalidValue, "", fmt.Sprintf("DynamoDB table names have 3 to 255 characters, this one has %d", len(s)),
			"write the name as `aws dynamodb list-tables` prints it"}
	}
	return nil
}

func checkBigtableTable(s string) *fault {
	if bigtableTable.MatchString(s) {
		return nil
	}
	return &fault{diag.InvalidValue, "",
		"Bigtable table names have 1 to 50 letters, digits, '_', '-' and '.', and begin with a letter, a digit or '_'",
		"choose a name that follows the rule"}
}

// checkTargetTable checks the target of a table entry.
func checkTargetTable(s string) *fault {
	if pattern.Is(s) {
		return &fault{diag.InvalidValue, "", "a target is one table; only from: can be a pattern", "name one table, and put the varying parts of the source's name into row_key, like {$name}"}
	}
	return checkBigtableTable(s)
}

// checkExternalID checks the text that the trust policy of a role asks for.
func checkExternalID(s string) *fault {
	const longest = 1224
	if externalID.MatchString(s) && len(s) <= longest {
		return nil
	}
	return &fault{diag.InvalidValue, "", fmt.Sprintf("an external id has 2 to %d letters, digits and _+=,.@:/-", longest), "write the value of sts:ExternalId in the trust policy of the role"}
}

// checkListen accepts host:port with an optional host. With port 0 the system chooses a port.
func checkListen(s string) *fault {
	host, port, err := net.SplitHostPort(s)
	if err != nil || strings.ContainsAny(host, " \t\r\n/") {
		return &fault{diag.InvalidValue, "", "the address does not have the form host:port", "write it like 127.0.0.1:8080, or :8080 for all interfaces"}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return &fault{diag.InvalidValue, "", "the port is not a number from 0 to 65535", "write it like 127.0.0.1:8080"}
	}
	return nil
}

// unnamed is the name of a migration if the configuration sets no name.
const unnamed = "default"

// Unnamed reports whether the migration has the default name. Other migrations may have the same
// name.
func (c *Config) Unnamed() bool { return c.Name == unnamed }
