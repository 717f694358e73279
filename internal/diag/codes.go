package diag

// The codes. The first two digits of a code name its area: 10 configuration, 11 environment of the
// process, 12 source, 13 target, 14 ledger, 15 data, 16 the program itself.
const (
	ConfigNotFound       = "R1001"
	ConfigUnreadable     = "R1002"
	YAMLSyntax           = "R1003"
	UnknownKey           = "R1004"
	DuplicateKey         = "R1005"
	WrongType            = "R1006"
	MissingValue         = "R1007"
	VariableUnset        = "R1008"
	BadExpansion         = "R1009"
	InvalidValue         = "R1010"
	NotAvailable         = "R1011"
	DuplicateTable       = "R1012"
	SharedTarget         = "R1013"
	TargetNameNeeded     = "R1014"
	UnknownVersion       = "R1015"
	YAMLRefused          = "R1016"
	Usage                = "R1017"
	TargetIsState        = "R1018"
	RuleInvalid          = "R1020"
	TemplateInvalid      = "R1021"
	ConditionInvalid     = "R1022"
	FamilyUndeclared     = "R1023"
	CounterFamily        = "R1024"
	SharedFamily         = "R1025"
	AddressAmbiguous     = "R1026"
	RuleUnreachable      = "R1027"
	FamilyKeeps          = "R1028"
	PatternInvalid       = "R1029"
	HistoryImpossible    = "R1030"
	ExpiredStay          = "R1031"
	FamilyDiffers        = "R1032"
	DualWritesImpossible = "R1033"
	TopicUnset           = "R1034"
	TombstonesVisible    = "R1051"
	ItemsMove            = "R1052"
	HistoryEmpty         = "R1053"
	RegionUnknown        = "R1054"
	DualWritesShareRows  = "R1055"
	DrainHasty           = "R1056"
	FreezeLong           = "R1057"
	OneEndpoint          = "R1101"
	EmulatorNotAllowed   = "R1102"
	NoRegion             = "R1103"
	NoAWSCredentials     = "R1104"
	NoGCPCredentials     = "R1105"
	CannotListen         = "R1106"
	InsecureEndpoint     = "R1107"
	ClockWrong           = "R1108"
	ProxyInvalid         = "R1109"
	TelemetryInvalid     = "R1110"
	SourceNotFound       = "R1201"
	StreamDisabled       = "R1202"
	StreamViewUnusable   = "R1203"
	SourceDenied         = "R1204"
	SourceUnreachable    = "R1205"
	SourceMalformed      = "R1206"
	SlowCopy             = "R1251"
	StreamReaders        = "R1252"
	WideRows             = "R1253"
	ExpiredElsewhere     = "R1254"
	ExpiryDiffers        = "R1255"
	RecoveryOff          = "R1256"
	ExpiryIgnored        = "R1257"
	TieredTable          = "R1258"
	TargetUnreachable    = "R1301"
	TargetDenied         = "R1302"
	ProfileMulti         = "R1303"
	ProfileNoTxn         = "R1304"
	TargetTableMissing   = "R1305"
	FamilyMissing        = "R1306"
	FamilyGC             = "R1307"
	TargetNotFound       = "R1308"
	ViewMissing          = "R1309"
	TopicUnusable        = "R1310"
	SubscriptionUnfit    = "R1311"
	QuotaExceeded        = "R1312"
	ViewDiffers          = "R1351"
	FamilyAges           = "R1352"
	FenceWithheld        = "R1353"
	MappingChanged       = "R1401"
	LedgerLost           = "R1402"
	TargetTaken          = "R1403"
	ClusterChanged       = "R1404"
	LedgerUnreadable     = "R1405"
	SourceMoved          = "R1406"
	SourceRekeyed        = "R1407"
	TargetHoldsRows      = "R1408"
	OtherMode            = "R1409"
	RanksForGood         = "R1410"
	LedgerShared         = "R1411"
	ParkedLimit          = "R1501"
	BadItemStop          = "R1502"
	NeedsLoad            = "R1503"
	DifferencesFound     = "R1504"
	ItemsParked          = "R1505"
	RetryNotYet          = "R1506"
	ItemNotFound         = "R1507"
	TableSetAside        = "R1508"
	ExamplesDiffer       = "R1509"
	LoadRefused          = "R1510"
	LoadWaits            = "R1511"
	RowsDiffer           = "R1512"
	VerifyRefused        = "R1513"
	VerifyWaits          = "R1514"
	CutOver              = "R1515"
	CutoverRefused       = "R1516"
	CutoverNotReady      = "R1517"
	HookFailed           = "R1518"
	CutoverCancelled     = "R1519"
	FinalizeRefused      = "R1520"
	TablePaused          = "R1521"
	FailoverRefused      = "R1522"
	GoalMissed           = "R1523"
	NoMoment             = "R1524"
	FallbackRefused      = "R1525"
	SampleUnmappable     = "R1551"
	AttributesUnmapped   = "R1552"
	Internal             = "R1601"
	TimedOut             = "R1602"
	Interrupted          = "R1603"
	NotHealthy           = "R1604"
	NotAccepted          = "R1605"
)

// registry is kept in ascending order of codes. Texts name only commands and flags that exist.
var registry = []Entry{
	{ConfigNotFound, "configuration file not found",
		"The program looks for the file in this order: `-c FILE`, `$REPLICATOR_CONFIG`, `./replicator.yaml`, `/etc/replicator/replicator.yaml`. If a flag or the variable names a file, that file must exist, and no other is tried.",
		"name the file with -c FILE, or create ./replicator.yaml", ExitUsage},
	{ConfigUnreadable, "configuration file cannot be read",
		"The operating system refuses to read the file, it is not a regular file, or it is larger than 1 MiB.",
		"check the file's permissions, its kind and its size", ExitUsage},
	{YAMLSyntax, "the configuration is not valid YAML",
		"The text cannot be parsed. The message names the line at which the parser stopped. The mistake is often one line above: a missing colon, an open quote, or a tab used for indentation.",
		"correct the YAML at or just above this line", ExitUsage},
	{UnknownKey, "unknown key",
		"The configuration is strict. If a misspelt option were ignored, you would notice it only during the migration.",
		"correct the spelling, or remove the key", ExitUsage},
	{DuplicateKey, "key given twice",
		"YAML parsers disagree about which of two equal keys counts, so each key may appear only once.",
		"keep one of the two", ExitUsage},
	{WrongType, "value of the wrong kind",
		"A section, a list or a single value is expected here, but the file has another kind of value. Or a number, duration or boolean cannot be parsed.",
		"write the value as the message says", ExitUsage},
	{MissingValue, "required value missing",
		"The key has no default, and neither the file, the environment nor a flag sets it. An empty string counts as not set.",
		"add the key", ExitUsage},
	{VariableUnset, "environment variable not set",
		"A value contains `${NAME}`, but the variable is not set. Or it contains `${NAME:?message}`, and the variable is not set or empty. An unset variable is never replaced by an empty string.",
		"set the variable, or give a default: ${NAME:-default}", ExitUsage},
	{BadExpansion, "malformed ${…}",
		"These forms are allowed: `${NAME}` (must be set), `${NAME:-default}`, `${NAME:?message}`, and `$$` for one dollar sign. They are expanded in values, not in keys or comments. They cannot be nested.",
		"use one of ${NAME}, ${NAME:-default}, ${NAME:?message}; write $$ for a dollar sign", ExitUsage},
	{InvalidValue, "invalid value",
		"The value has the right type, but this key does not allow it.",
		"choose a value that the message allows", ExitUsage},
	{NotAvailable, "not available in this version",
		"The key, value or command exists, but this version does not implement it. This is an error, so that a migration never runs without an option that you set.",
		"remove it, or use a version that has it", ExitUsage},
	{DuplicateTable, "source table listed twice",
		"A source table may appear in only one entry of `tables`. Two entries would write the same rows.",
		"remove one of the entries", ExitUsage},
	{SharedTarget, "two tables write the same target",
		"Two entries of `tables` name the same target table, or one entry is a pattern that matches several tables. Items of two tables could then have the same row key and overwrite each other. Entries may share a target if each entry's row keys begin with a different literal. A default row key begins with an attribute, which can have any value. The tables that match a pattern may share a target if every row key contains each varying part of the name.",
		"give each entry its own `to`, or begin their row keys with different literals; for a pattern, put each varying part into row_key as {$name}", ExitUsage},
	{TargetNameNeeded, "the source's name cannot name a Bigtable table",
		"Without `to`, the target table takes the source's name, but a pattern has no single name. DynamoDB allows 255 characters and a leading `-` or `.`. Bigtable allows 50 characters, the first of them a letter, a digit or `_`.",
		"add `to` with a name of at most 50 characters", ExitUsage},
	{UnknownVersion, "unknown version of the configuration format",
		"`version` is the format of the file. This program reads version 1.",
		"write `version: 1`, or use the release that introduced the other format", ExitUsage},
	{YAMLRefused, "YAML feature not supported",
		"The configuration does not allow anchors, aliases, merge keys, explicit tags, keys that are not plain text, or several documents in one file. They hide where a value comes from.",
		"write the value out at each place; use ${NAME} where environments differ", ExitUsage},
	{Usage, "wrong usage of a command",
		"A flag or an argument is unknown, missing or contradicts another. Or the command needs confirmation, but there is no terminal.",
		"see `replicator help` and the command's --help", ExitUsage},
	{TargetIsState, "target table is the state table",
		"The state table holds leases, checkpoints and parked items. No source table may be copied into it.",
		"choose another `to`, or another `state.table`", ExitUsage},
	{RuleInvalid, "invalid mapping rule",
		"The parts of a rule contradict each other, or they do not determine the cells of an item.",
		"write the rule as the message says; docs/reference/configuration.md has an example of each form", ExitUsage},
	{TemplateInvalid, "row key or column template cannot be parsed",
		"A template has literals and placeholders: `invoice#{PK | after('INVOICE#')}`. A placeholder names an attribute, or with `$` a part of the source table's name. Functions follow after `|`.",
		"write {attribute | function('text')}; write `{{` and `}}` for braces", ExitUsage},
	{ConditionInvalid, "condition cannot be parsed",
		"`when` is a DynamoDB condition expression that contains its values: `begins_with(PK, \"VIDEO#\") AND SK = \"META\"`.",
		"correct the condition at the named place", ExitUsage},
	{FamilyUndeclared, "column family not declared",
		"A rule may write only families that `families` of the same table declares. So a typo cannot create a family.",
		"declare the family, or correct its name", ExitUsage},
	{CounterFamily, "counters and other values in one family",
		"`as: counter` writes the absolute value of an aggregate cell. Only aggregate families such as `counters: never:intsum` have such cells, and they hold nothing else. They must have no age rule: a counter's cell has the timestamp 0, so Bigtable would collect it immediately.",
		"declare a family for counters, such as counters: never:intsum", ExitUsage},
	{SharedFamily, "two rules of one row write the same family",
		"Writing an item replaces all its cells in the row. If items of two rules share a row, each rule needs its own families, columns by name, or one cell. Otherwise one item would delete what the other wrote.",
		"give one of the rules another family, or make their rows differ", ExitUsage},
	{AddressAmbiguous, "two items can have the same row or cell",
		"The row key must contain the whole primary key of the source table, with its parts separated. If an item is one cell of a shared row, row key and column together must contain it. Otherwise two items would overwrite or delete each other.",
		"add the missing attribute to the row key or column", ExitUsage},
	{RuleUnreachable, "a rule never applies",
		"The first rule whose condition matches an item applies to it. An earlier rule matches every item that this rule could match.",
		"put the more specific rule first, or remove one", ExitUsage},
	{FamilyKeeps, "garbage collection cannot expire items",
		"`ttl: {expire: gc}` sets the timestamp of an item's cells, so that they reach their family's maximum age when the item expires. A family without an age rule never collects them. An age of more than 50 years (18250d) does not work either, because no cell can have a timestamp before 1970.",
		"give the family an age rule between 1ms and 18250d: maxversions=1 || maxage=30d", ExitUsage},
	{PatternInvalid, "pattern of table names cannot be parsed",
		"`from` may be a pattern. `{name:4}` matches exactly four digits. One part may have no number, and then matches any text. A second such part would make names ambiguous. Row keys use the parts as `{$name}`.",
		"write it like Orders_{year:4}_{month:2}", ExitUsage},
	{HistoryImpossible, "older cells cannot be kept here",
		"`keep_versions` keeps the former values of an attribute as older cells of its column. Each cell has the time at which its value became valid. The family must not have an age rule, because it would collect values that are still valid. `expire: gc` and `as: cells` are not possible either, because both use the cell's timestamp for another purpose.",
		"give the family a rule by number such as `maxversions=10`, or `never`; or remove keep_versions", ExitUsage},
	{ExpiredStay, "these rules cannot keep expired items",
		"`ttl: {expire: keep}` keeps items in the target after DynamoDB's time to live has removed them. If the application inserts such an item again, the insert has no old image. If a condition, a row key or a cell's column uses an attribute beyond the primary key, the new image may go to another row or family. Nothing would remove the former row, and readers would find both.",
		"write expire: follow_deletes, or use only the primary key in when, row_key and the column of cell", ExitUsage},
	{FamilyDiffers, "two entries declare the same family differently",
		"Entries of `tables` with the same target table share its families. A family has one garbage collection rule and one kind. Under the other entry's rule, cells could vanish too early or stay too long. A table without `families` declares `d: maxversions=1`.",
		"declare the family the same way in both entries, or give one of them its own family or target", ExitUsage},
	{DualWritesImpossible, "this mapping does not work with dual writes",
		"With `dual_writes`, the application and replicator write the same cells, and each cell has the time of its change. `keep_versions`, `as: cells` and `expire: gc` use the cell's timestamp for another purpose, so they cannot be combined with `dual_writes`. A file may set `dual_writes.settle` or `dual_writes.version_attribute`, but not both.",
		"write `dual_writes: off` for this table if nothing else writes its target; or change its mapping", ExitUsage},
	{TopicUnset, "topic or subscription not configured",
		"`relay` publishes to a Pub/Sub topic, and `run --from pubsub` pulls from a subscription to it. The configuration does not name them.",
		"set relay.pubsub_topic: projects/PROJECT/topics/TOPIC", ExitUsage},
	{TombstonesVisible, "readers may see rows of removed items (warning)",
		"A removed item leaves a tombstone: a row that has only the family `_cdc_gone`. It stays until `state.tombstone_age` has passed, so that a late write cannot restore the item. Live rows have a cell in the family `_cdc`. A reader without a family filter sees both.",
		"read with a family filter that passes only the application's families", ExitDone},

	{ItemsMove, "an item can move to another row",
		"A rule's row key or condition uses an attribute beyond the primary key. When that attribute changes, the item moves to another row. Only the old image names the former row, so the stream must have the view type `NEW_AND_OLD_IMAGES`.",
		"check the stream's view type, or use only primary-key attributes in `row_key` and `when`", ExitUsage},
	{HistoryEmpty, "keep_versions keeps nothing (warning)",
		"The family's garbage collection rule determines how many older cells are kept. The default `maxversions=1` leaves one cell of each column. Every write still costs a read of the row.",
		"declare the family with `maxversions=10` or `never`, or remove keep_versions", ExitDone},
	{RegionUnknown, "unknown AWS region (warning)",
		"This version does not know the region. A region that does not exist has no endpoint, so every request would fail. The program continues, because the region may be newer than this version, and because an emulator accepts any name.",
		"correct `source.region`, or keep it if the region is newer than this version", ExitDone},
	{DualWritesShareRows, "the application must not delete whole rows (warning)",
		"With `dual_writes` the application also writes the target. If several items share a row, `DeleteRow` removes the cells and versions of all of them. Items that do not change are not written again.",
		"have the application delete the item's own cell (`DeleteFromColumn`)", ExitDone},
	{DrainHasty, "a cutover setting weakens the proof of a drain, or has no effect (warning)",
		"DynamoDB lists a child shard some time after its parent has ended. A child that is listed later than `cutover.listing_bound` is not drained. `cutover.listings_apart` is obsolete: a cutover lists no shards while writes are frozen. `cutover.deadlines` is obsolete: a try has one deadline, `cutover.freeze_deadline`.",
		"set `listing_bound: 2m` or more, or remove it; remove `listings_apart` and `deadlines`", ExitDone},
	{FreezeLong, "a freeze lasts longer than cutover.freeze_at_most (warning)",
		"`cutover.freeze_at_most` limits the expected duration of a freeze. Other settings need more time: dual writes settle first, or late writes are rejected before the switch. They raise the limit.",
		"plan for the longer freeze, or remove the setting that raises the limit", ExitDone},
	{OneEndpoint, "AWS endpoints contradict each other",
		"DynamoDB and DynamoDB Streams have separate endpoints in the AWS SDK. If only one of them is redirected to an emulator, the items of one table would be mixed with the changes of another. The check includes the `services` of an AWS profile, and the region `local`, for which the SDK redirects only DynamoDB. An endpoint in AWS, such as a VPC endpoint, may be set for one service only. It must belong to that service and to the region for which requests are signed.",
		"set AWS_ENDPOINT_URL_DYNAMODB and AWS_ENDPOINT_URL_DYNAMODB_STREAMS, or AWS_ENDPOINT_URL for both, or none", ExitUsage},
	{EmulatorNotAllowed, "an endpoint is redirected without --allow-emulator",
		"A leftover setting in a production shell must not redirect a migration. Google's clients follow `BIGTABLE_EMULATOR_HOST` and `PUBSUB_EMULATOR_HOST` silently, unencrypted and without credentials. The AWS SDK follows `AWS_ENDPOINT_URL`, its forms for single services, and `endpoint_url` of a profile. An https endpoint of the AWS service and a VPC endpoint need no flag. Other hosts in Amazon's domains need it, because anyone can rent one.",
		"unset the variable, or pass --allow-emulator to use the emulator", ExitUsage},
	{NoRegion, "AWS region not set",
		"Neither `source.region`, `AWS_REGION` nor the AWS profile names a region, or the name contains a space or a newline.",
		"set source.region, or AWS_REGION", ExitUsage},
	{NoAWSCredentials, "no usable AWS credentials",
		"The AWS SDK found no credentials in the environment, a web identity token, a shared profile, a container or an instance role. Or the access key, secret or token contains a newline, a space or quotation marks. Secrets are never shown. The configuration deliberately has no keys for credentials. The exit status makes a service manager restart the process, because credentials may be mounted late. A running process retries until it gets credentials.",
		"correct the credentials; `aws sts get-caller-identity` shows whether they work in this environment", ExitFailed},
	{NoGCPCredentials, "no usable Google credentials",
		"Application Default Credentials were not found, cannot be read, or yield no token. The program tries `GOOGLE_APPLICATION_CREDENTIALS`, then gcloud's file, then a metadata server. Or the variable holds the credentials themselves instead of the name of their file. Credentials are never shown. The exit status makes a service manager restart the process.",
		"run `gcloud auth application-default login`, or attach a service account", ExitFailed},
	{CannotListen, "cannot listen on the HTTP address",
		"Health, metrics and the status page are served on `http.listen`. Another process uses the address, or it is not an address of this machine.",
		"choose another address with http.listen, REPLICATOR_HTTP_LISTEN or --listen", ExitUsage},
	{InsecureEndpoint, "AWS endpoint without encryption",
		"An AWS endpoint uses `http://` on another host. Items and session tokens would cross the network unencrypted.",
		"write the endpoint with https://, or pass --allow-insecure-endpoint if the network is private", ExitUsage},
	{ClockWrong, "the clock of this host is wrong",
		"This host's clock differs from the time in DynamoDB's answers by more than ten minutes. Or AWS rejects a request because its signature is more than five minutes early or late. Or Google issues no token because of the clock. With a wrong clock, DynamoDB rejects requests and every reported time would be wrong. If the clock becomes wrong while a worker runs, the worker continues. The log, `status` and the metric `replicator_clock_offset_seconds` then report it.",
		"set the clock, for example by NTP (timedatectl set-ntp true), and start again", ExitUsage},
	{ProxyInvalid, "proxy address cannot be parsed",
		"`HTTPS_PROXY` or `HTTP_PROXY` holds an address that is not a URL. Go ignores such an address and bypasses the proxy, so the program stops. The usual reason is an unescaped character in the user or password. The password is never shown.",
		"write it as http://USER:PASSWORD@HOST:PORT, with percent-encoding in USER and PASSWORD (% as %25, # as %23, / as %2F, @ as %40)", ExitUsage},
	{TelemetryInvalid, "OpenTelemetry variable has an invalid value",
		"A variable of OpenTelemetry, such as `OTEL_EXPORTER_OTLP_ENDPOINT`, has a value that the SDK would ignore. Traces or metrics would then be missing, or go to another place. Only OTLP over HTTP is supported. Headers are never shown.",
		"correct the variable, or set OTEL_SDK_DISABLED=true to run without OpenTelemetry", ExitUsage},

	{SourceNotFound, "source table not found",
		"DynamoDB has no table with this name in this region and account.",
		"check the name, source.region and the account: aws dynamodb list-tables. A table of another account needs its ARN in from", ExitFailed},
	{StreamDisabled, "the table has no stream",
		"Changes are read from DynamoDB Streams. The stream must be enabled with new and old images. Enabling it does not affect the table's users.",
		"aws dynamodb update-table --table-name TABLE --stream-specification StreamEnabled=true,StreamViewType=NEW_AND_OLD_IMAGES", ExitFailed},
	{StreamViewUnusable, "the stream lacks images",
		"Streams with `KEYS_ONLY` or `OLD_IMAGE` have no new image of an item. `NEW_IMAGE` is enough only if row keys and names of columns depend on the primary key alone. Otherwise only the old image names the row to remove. The view type of a stream cannot be changed. Disabling and enabling the stream starts a new stream, which lacks the changes made while it was disabled.",
		"disable the stream, wait until the table is active, then enable it with StreamViewType=NEW_AND_OLD_IMAGES", ExitFailed},
	{SourceDenied, "access to the source denied",
		"AWS denies the request. The fix depends on the reason that AWS gives: expired or unknown credentials, a wrong secret, a policy, or a KMS key. Otherwise the identity lacks a permission. Needed on the table: `dynamodb:DescribeTable`, `dynamodb:Scan`, and `dynamodb:GetItem` for `parked retry`, `preview` and `explain`. Needed on `table/TABLE/stream/*`: `dynamodb:DescribeStream`, `dynamodb:GetShardIterator`, `dynamodb:GetRecords`.",
		"attach the policy that `replicator plan --print-iam aws` prints to the identity", ExitFailed},
	{SourceUnreachable, "source unreachable",
		"DynamoDB or DynamoDB Streams did not answer in time, failed, or throttled every request of a probe for five seconds. Common causes are a missing route, a proxy, a wrong region, or an emulator that is not running.",
		"check the network, source.region and the AWS_ENDPOINT_URL… variables", ExitFailed},
	{SourceMalformed, "DynamoDB rejects the request, or its answer cannot be parsed",
		"DynamoDB answered, so the network works. It rejects the request (a `ValidationException`), or its answer contains something unknown to this version. A proxy, or an endpoint that is not DynamoDB, may also cause this error.",
		"correct what the cause names, or the AWS_ENDPOINT_URL… variables", ExitFailed},
	{SlowCopy, "the copy may take longer than the stream keeps changes (warning)",
		"A stream keeps changes for 24 hours. Changes are applied during the copy, so a slow copy alone loses nothing. But after a copy of more than 18 hours, little time remains to repair a fault that stops the workers. The copy and the workers also share the limits of both databases for that long.",
		"raise backfill.max_rows_per_second, give the table more read capacity or the cluster more nodes, or run several workers", ExitDone},
	{StreamReaders, "a stream supports two readers per shard (warning)",
		"DynamoDB Streams supports at most two readers of a shard. With a third reader, requests of all three are throttled. The workers of one migration count as one reader, because only one of them reads a shard. DynamoDB does not list the readers of a stream.",
		"look for Lambda triggers and other consumers of the stream, and stop those that are not needed", ExitDone},

	{WideRows, "shared rows may grow too large (warning)",
		"Rules put many items into one row, and the sample maps to few rows. The table's size suggests that such a row approaches or exceeds Bigtable's limit of 256 MB. A write to a full row fails, and its item is parked. The sample cannot show one large row among many.",
		"add a part to the row key, such as the day or a salt, to keep rows below 100 MB; or give each item its own row under a common prefix", ExitDone},
	{ExpiredElsewhere, "`expire: keep` does not keep items that expire in another region (warning)",
		"When DynamoDB's time to live deletes an item, its stream record has a mark. In a global table, only the region that deleted the item sets the mark. In other regions, the record looks like a delete by the application, and is applied. The target then loses these items, and no report lists them.",
		"write expire: follow_deletes, which removes all expired items; to keep them all, use one region only, or turn the time to live off", ExitDone},
	{ExpiryDiffers, "`expire: gc` does not match the table's time to live (warning)",
		"With `expire: gc`, Bigtable collects the cells of an item at the time in the attribute. DynamoDB's time to live is off for this table, or uses another attribute. An item may then stay in DynamoDB while its row loses its cells, so that the two differ.",
		"turn the time to live on for this attribute (aws dynamodb update-time-to-live), name the attribute that it uses, or remove ttl", ExitDone},
	{RecoveryOff, "point-in-time recovery is off (warning)",
		"DynamoDB exports a table only while its point-in-time recovery is on. If the stream ever loses changes, the whole table must be read again. An export does this without read capacity.",
		"turn it on with `aws dynamodb update-continuous-backups`. AWS bills it per GB-month", ExitDone},
	{ExpiryIgnored, "DynamoDB expires no sampled item (warning)",
		"A table has a time-to-live attribute, but no sampled value of it is a time that DynamoDB accepts: a number of seconds since 1970, at most five years ago. DynamoDB ignores other values, such as milliseconds and texts, and so does `expire: gc`. Such items and their rows never expire.",
		"correct the values in the application, or name the attribute by which items expire", ExitDone},
	{TieredTable, "the target table has tiered storage (warning)",
		"Bigtable moves cells older than a given age to the infrequent access tier, where reads are slow and cost more. The condition of each guarded write reads cells whose timestamp is 0, and these are older than every age.",
		"remove the rule while replicator runs, and set it again after `replicator finalize`", ExitDone},
	{TargetUnreachable, "target unreachable",
		"Bigtable did not answer in time. Google's client reports an unreachable endpoint only as `context deadline exceeded`.",
		"check the network, and BIGTABLE_EMULATOR_HOST if you use an emulator", ExitFailed},
	{TargetDenied, "access to the target denied",
		"The identity lacks a permission. `roles/bigtable.user` on the instance is enough to read and write data. To create tables and families (`target.create_missing: true`) and to read the app profile, it also needs `bigtable.tables.create`, `bigtable.tables.update`, `bigtable.tables.get`, `bigtable.tables.list` and `bigtable.appProfiles.get`.",
		"grant the role that `replicator plan --print-iam gcp` prints", ExitFailed},
	{ProfileMulti, "the app profile routes to several clusters",
		"Leases and the version check of each row are single-row transactions. They are atomic only within one cluster. With multi-cluster routing, two workers could both acquire a lease.",
		"gcloud bigtable app-profiles create replicator --instance=INSTANCE --route-to=CLUSTER --transactional-writes, then target.app_profile: replicator", ExitFailed},
	{ProfileNoTxn, "the app profile does not allow single-row transactions",
		"Every write is a single-row transaction that checks the version in the row. The app profile must allow such transactions.",
		"gcloud bigtable app-profiles update PROFILE --instance=INSTANCE --route-to=CLUSTER --transactional-writes", ExitFailed},
	{TargetTableMissing, "Bigtable table missing",
		"A target table or the state table does not exist, and `target.create_missing` is off. `replicator plan` shows the families and rules that each table needs.",
		"run `replicator plan --apply`, which creates the table with its families, or set target.create_missing: true", ExitFailed},
	{FamilyMissing, "column family missing",
		"The table exists but lacks a family, and `target.create_missing` is off. The missing family belongs to the mapping, to replicator (`_cdc`, `_cdc_gone`) or to the state table.",
		"run `replicator plan --apply`, which creates the family with its rule, or set target.create_missing: true", ExitFailed},
	{FamilyGC, "garbage collection would remove protected cells",
		"`_cdc` holds the version of each live row at a constant timestamp. It must have no age rule: Bigtable would collect the version, and older changes could overwrite the row. Replicator creates it with `maxversions=1`. `_cdc_gone` holds the versions of removed items and must keep them for `state.tombstone_age`. A family of counters must have no age rule, because its cells have the timestamp 0. Families of lists, of `keep_versions` and of `expire: gc` must have the declared rule.",
		"cbt setgcpolicy TABLE _cdc maxversions=1 and cbt setgcpolicy TABLE _cdc_gone maxage=14d (your state.tombstone_age)", ExitFailed},
	{TargetNotFound, "Bigtable instance or app profile not found",
		"Bigtable does not know the project, the instance or the app profile.",
		"check target.project, target.instance and target.app_profile: gcloud bigtable instances list", ExitFailed},
	{ViewMissing, "authorized view missing",
		"`target.view` names an authorized view of each target table. It shows the families of the mapping, so readers do not see the rows of removed items. It does not exist, and `target.create_missing` is off.",
		"create it with `gcloud bigtable authorized-views create`, or set target.create_missing: true", ExitFailed},
	{TopicUnusable, "the topic or subscription cannot be used",
		"`relay` publishes to `relay.pubsub_topic`, `run --from pubsub` pulls `relay.subscription`, and parked items are published to `errors.park_to`. One of them does not exist, the identity may not use it, or Pub/Sub does not answer. The checkpoint never passes a change that is not published.",
		"check relay.pubsub_topic, relay.subscription and errors.park_to; create a topic with `gcloud pubsub topics create TOPIC --message-retention-duration=7d`; grant what `replicator plan --print-iam gcp` prints", ExitFailed},
	{SubscriptionUnfit, "the subscription has unsuitable settings",
		"`run --from pubsub` needs every message of the topic as it was published. So the subscription must be attached to its topic. It must have no ordering, no exactly-once delivery, no filter, no transform and no push or export. It must keep messages for at least a day, and for a time that is at least four days shorter than `state.tombstone_age`. With a dead-letter topic it must allow at least 20 delivery attempts and have a retry policy, because restarts also use up attempts.",
		"create another subscription, or change this one as the message says", ExitFailed},
	{QuotaExceeded, "a Google Cloud quota is exhausted",
		"Bigtable or Pub/Sub rejects a request because it lacks capacity, or because of a quota or limit of the project. At the start, the program retries for five seconds. A running worker retries until it succeeds, and its checkpoint does not advance until then.",
		"wait and start again; if the error persists, add nodes to the cluster, or raise the quota in the console under IAM & Admin, Quotas", ExitFailed},
	{ViewDiffers, "the authorized view has other families than the mapping (warning)",
		"The view of `target.view` exists, and replicator never alters it. Its readers do not see all families that the mapping writes, or they see replicator's own families and the rows of removed items.",
		"update the view's families, or name another view in target.view", ExitDone},
	{FamilyAges, "an existing family has an undeclared age rule (warning)",
		"The family has an age rule that the configuration does not declare. Bigtable removes the cells of every item that does not change for that long, although the item is still in DynamoDB. The row then differs from its item. Replicator never alters an existing family. The rule may be intentional, so this is only a warning.",
		"run cbt setgcpolicy TABLE FAMILY with the declared rule; or, if the age rule is intentional, declare it in families", ExitDone},
	{FenceWithheld, "late writes are not fenced (warning)",
		"Every write names a numbered family of the target table, `_cdc_w…`. When replicator drops that family, Bigtable rejects writes that a paused worker or the network delivers too late. Workers create and drop these families even with `target.create_missing: false`. Without the permission, a write that arrives hours late may leave an orphan row.",
		"grant bigtable.tables.update, as `replicator plan --print-iam gcp` prints; remove the table's deletion protection during the copy", ExitDone},

	{MappingChanged, "the mapping has changed since the migration began",
		"Rows that were written with the old mapping stay unchanged until they are loaded again. A changed mapping is therefore refused without --accept-mapping-change. This flag begins a new generation, and the table needs a load. The load writes every row again. The sweep after it removes rows that only the old mapping wrote. The mapping also changes when a second table begins to share a target: rows then carry the name of their source table.",
		"restore the old mapping, or see the effect of the change with `replicator plan` and run once with --accept-mapping-change", ExitUsage},
	{LedgerLost, "the ledger was deleted or replaced while the process ran",
		"The state table no longer has this process's records: it was deleted, restored from a backup or replaced. Its checkpoints are unreliable, so the process stops. The target tables hold witness rows. At the next start these rows show that the ledger differs, and the tables need a load.",
		"find out what happened to the state table before you start again", ExitFailed},
	{TargetTaken, "another migration writes this target table",
		"The target table carries the witness of another migration. Two migrations would reject or remove each other's rows. If the other migration no longer exists, and its state table was deleted, its witness stays in the target table. Delete it by hand: the error shows the command.",
		"stop the other migration, or choose another `to`; give all workers of one migration the same `name`; if rows of both belong there, set target.shared: true in both", ExitFailed},
	{ClusterChanged, "the app profile now routes to another cluster",
		"Replication between clusters is asynchronous, so the new cluster may have checkpoints without their rows. All writes stop until an operator decides.",
		"route the app profile back to the former cluster, or stop every worker and run `replicator failover`", ExitFailed},
	{LedgerUnreadable, "a ledger row cannot be parsed",
		"This version does not know the format of a row in the state table. A newer version or another program wrote it.",
		"run the newest version that has used this state table; check that nothing else writes to it", ExitFailed},
	{SourceMoved, "the source table is not the one that is followed",
		"A table with this name exists, but the ledger follows a table in another account or region. The credentials or the region have changed. Or the table was recreated, or its stream was enabled again, and no worker has recorded that yet. Its items would be mistaken for items of the copied table. Nothing was changed.",
		"use the former account and region. If the table is a replica of the followed one, in a global table: replicator failover --source-region REGION. To replicate another table, use another `name` and `to`", ExitFailed},
	{SourceRekeyed, "the source table was recreated with another primary key",
		"The table was dropped while this process ran, and recreated with another primary key. The mapping was made for the former key, so items of the new table would overwrite each other. No items of the new table were read.",
		"start again, so that the mapping uses the new key; if the former table was copied, the new one needs a load", ExitFailed},
	{TargetHoldsRows, "the target table already has rows",
		"The table was never copied under this `name`. Another program, or a migration with another ledger, wrote the rows of its target. The copy overwrites rows with the same keys, so your consent is needed. Nothing was created or written.",
		"if the rows may be overwritten, run once: replicator run --adopt-rows; otherwise choose another `to`", ExitUsage},
	{OtherMode, "the ledger records another mode for the table",
		"The ledger records the mode of each table. In mode direct, `run` writes changes to the target. In mode both, `relay --apply` also publishes them. In mode topic, `relay` publishes them and `run --from pubsub` writes them. A process of another mode would move checkpoints past unpublished changes, so it is refused. A running process stops when the mode changes.",
		"use the command with which the table began. Or stop all processes and start the other command with --accept-mode-change. Publishing then begins or ends, and a table that is no longer applied from its topic needs a load", ExitUsage},

	{RanksForGood, "dual_writes.version_attribute cannot be switched off",
		"Versions in the rows begin with the application's own number. They rank above every version without such a number. Without the setting, these rows would reject every later write.",
		"restore dual_writes.version_attribute; or copy again under another `name` into another `to`", ExitUsage},
	{LedgerShared, "the ledger belongs to another migration",
		"The `name` of a migration is the prefix of its rows in the state table. Configurations without `name` share the ledger `default` if they use the same state table. So does a copied configuration that kept its `name`. Then `replicator status` counts the workers of both migrations, and a cutover or failover of one affects the other.",
		"set another `name` in one of the configurations; the workers of one migration share one name", ExitUsage},
	{ParkedLimit, "too many parked items",
		"More items than `errors.stop_above` could not be mapped or stored. So many bad items usually mean that the mapping or the target is wrong. No item was skipped. Parked items are kept, and the checkpoint never passes a change that is not applied.",
		"list them with `replicator parked list`; raise errors.stop_above only if they are expected", ExitFailed},
	{BadItemStop, "an item cannot be mapped or stored",
		"`errors.on_bad_item` is `stop`. The checkpoint stays before the change, and the next start reads it again.",
		"correct the item in the source or the mapping, or set errors.on_bad_item: park", ExitFailed},
	{NeedsLoad, "changes are missing, so the table needs a load",
		"There are three possible reasons. The stream dropped changes before they were read, because streams keep changes for 24 hours. Or the stream, the ledger or the target was replaced or lost. Or a changed mapping was accepted. Workers still apply new changes. The table is in sync only after another load.",
		"`replicator backfill start --repair-gap` loads these tables again and removes orphan rows; `replicator backfill status` shows the progress", ExitNo},
	{DifferencesFound, "source and target differ",
		"The comparison was complete. It found rows that are missing, different or orphaned.",
		"let replicator catch up while no application writes, and compare again. If differences remain, report them as a bug", ExitNo},
	{ItemsParked, "items are parked",
		"Some items could not be mapped or stored, and wait for your decision. All other changes are applied.",
		"see them with `replicator parked list` and `replicator parked show`. Correct the item in the source, read it again with `replicator parked retry`, or discard it with `replicator parked drop`", ExitNo},
	{RetryNotYet, "an item cannot be retried yet",
		"The item's row has no version, so a retry would store the item as a load does. That is safe only after every shard has the table's generation, and every root shard has been read. Until then a change of the item could be lost. While a fast load runs, no row is repaired, because its sweep could delete what the repair keeps.",
		"keep `replicator run` running for a moment, then retry", ExitFailed},
	{ItemNotFound, "no such item",
		"The source table has no item with this key. The read was strongly consistent.",
		"check the key: text, number and binary keys are different even if they look the same", ExitNo},
	{TableSetAside, "a table cannot be followed",
		"The table's name matches a pattern, but it has no usable stream, its key does not fit the mapping, or it no longer exists. The other tables continue. The table is followed once the cause is removed. If a table is named in the configuration, it is suspended when it is dropped. The rest of its stream is still applied, for up to a day. Its rows stay in the target.",
		"remove the cause; for a table without a stream: aws dynamodb update-table --table-name TABLE --stream-specification StreamEnabled=true,StreamViewType=NEW_AND_OLD_IMAGES", ExitNo},
	{ExamplesDiffer, "an example yields unexpected cells",
		"`replicator test` ran the examples of the mapping, and some cells differ from those expected. Lines with - are expected, lines with + are the result.",
		"correct the mapping; or, if the new cells are right, record them with `replicator test --update`", ExitNo},
	{LoadRefused, "the load cannot be started or changed",
		"The command does not fit the state of the table's load. The table may need no load, may not be followed yet, or may already have had the only load of this generation. Or the named export is incomplete, belongs to another table, or is too old for the stream. Nothing was changed.",
		"see `replicator backfill status`; `replicator backfill redo` loads all items of a table again", ExitNo},
	{LoadWaits, "the load waits for an operator",
		"The load is paused, its sweep waits for approval, or there is another gap and `backfill.on_gap` is `wait`. Changes are still applied.",
		"see the last lines of `replicator backfill status`, which name the command to continue", ExitNo},
	{RowsDiffer, "source and target differ",
		"`replicator verify` mapped all items and compared the result with the rows of the target. With `--reverse`, it compared items with their rows. Some rows differed twice at the same version. They are missing, have other cells, are orphans, or have cells that replicator did not write. Or some rows stayed in flight: at every read, some of their changes were not applied yet.",
		"see the list of differences; `replicator explain` shows everything about one key", ExitNo},
	{VerifyRefused, "the verify cannot be started or changed",
		"No migration follows the table yet, or no verify of it is running. Or `--reverse` was given for a table without a way back, or before the switch. Nothing was changed.",
		"see `replicator verify status` and `replicator status`", ExitNo},
	{VerifyWaits, "the verify cannot finish",
		"Rows differ, but changes from before the comparison are not applied yet, so the difference is not proven. A worker may be far behind (exit status 4). The verify may be paused or cancelled. Or the mapping or the generation of the table has changed meanwhile (exit status 1). With `--reverse --repair`, no worker has looked at the differing rows in time (exit status 4).",
		"start `replicator run`, or wait until it has caught up; then run verify again, which resumes", ExitNo},
	{CutOver, "the tables are cut over",
		"The application now writes the target itself. Replicator must no longer write there. So `run --once` and commands that change something end with this error. Other processes of `run` and `relay` only idle: they read the ledger every 30 s, and neither read nor write any table. The ledger keeps this record permanently.",
		"remove the workers from their deployment once `replicator finalize` is done; for a new migration choose another `name` and another target table", ExitNo},
	{CutoverRefused, "this step of the cutover is not possible now",
		"The steps of a cutover have a fixed order. A running attempt must end before another begins. After the switch there is no cancel.",
		"see the current step: `replicator cutover check`", ExitNo},
	{CutoverNotReady, "the cutover is not ready",
		"Each gate compares a figure with a bound from `cutover.ready_when`. A gate without a figure is not ready. The cutover freezes writes only when every gate is ready, or overridden with `--override` and a reason.",
		"run the command shown next to each gate", ExitNo},
	{HookFailed, "a cutover hook cannot be called",
		"The hooks freeze, switch and unfreeze the application. Before a cutover begins, the process that drives it calls each hook with `--probe`. With that flag a hook must only check that it could do its work.",
		"run the hook by hand with --probe, on the worker's machine and as its user", ExitFailed},
	{CutoverCancelled, "the cutover was cancelled",
		"An operator cancelled it, a gate was not ready, a deadline passed, or a hook refused. A cancel before the switch is always safe: the application writes the source again, and the tables resume from their checkpoints.",
		"see the reason with `replicator cutover check`, remove it, and start again", ExitNo},
	{FinalizeRefused, "the target cannot be finalized",
		"Replicator's metadata in the target rejects late writes. It may be removed only when the tables are cut over, the watch for late writers has ended, and every running worker is idle. Workers of versions that cannot idle must be stopped.",
		"wait until the reason in the error is gone, or stop the named worker; then run finalize again", ExitNo},
	{TablePaused, "a table is paused",
		"An operator paused the table. No worker reads its stream, copies or verifies it. The stream keeps changes for 24 hours. Changes that are not read by then are lost, and the table needs a load.",
		"`replicator resume --table TABLE` resumes it; `replicator status` shows when and why it was paused", ExitNo},
	{FailoverRefused, "the failover is not possible yet",
		"A failover begins when no process writes the ledger. It ends when no write can arrive from the former cluster, because everything is copied or the cluster was deleted. Nothing was changed.",
		"remove the cause in the error, then run `replicator failover` again", ExitNo},
	{GoalMissed, "the migration has not reached the requested state",
		"`replicator status --exit-code` found a table that is neither in sync nor done. Or `--wait` found a table that cannot get in sync without an operator. Such a table is paused, needs a load, has parked items or rows that differ, or its sweep waits for approval.",
		"see the next steps of `replicator status`", ExitNo},
	{NoMoment, "no suitable moment for a short freeze",
		"A cutover freezes writes only when the freeze is expected to end within `cutover.freeze_at_most`. A shard that has just ended would make the freeze longer, by up to `cutover.listing_bound`. No such moment came within --timeout. Nothing was frozen.",
		"start again with a longer --timeout, or raise `cutover.freeze_at_most`", ExitTimeout},
	{FallbackRefused, "no fallback can be kept",
		"After a cutover, DynamoDB can follow Bigtable only if every row gives its item back, if the change stream of the table can be read, and if DynamoDB bounds late writes. The causes name what prevents that for each table.",
		"remove each cause, or start the cutover with `--keep-fallback no`", ExitNo},
	{SampleUnmappable, "some sampled items cannot be mapped (warning)",
		"Bigtable cannot hold some items of the sample, because of their row key or a value. A run parks such items. Their share in the sample shows how many to expect.",
		"correct the items in the source, or the mapping; errors.stop_above limits how many may be parked", ExitDone},
	{AttributesUnmapped, "some attributes are not copied (warning)",
		"No rule maps these attributes, and `drop_attributes` does not name them. They would be missing in the target. Only the sample was checked.",
		"map each with a column, or all others with `\"*\"`; or name them in drop_attributes", ExitDone},

	{Internal, "internal error",
		"The program reached a state that should not exist, so it stops. The checkpoint has not passed a change that is not applied, so a restart is safe.",
		"restart; if the error returns, report it with this message and the output of `replicator version`", ExitFailed},
	{TimedOut, "timed out",
		"The command did not finish within --timeout. Everything that it has done so far is kept.",
		"raise --timeout, or see `replicator status`", ExitTimeout},
	{Interrupted, "interrupted",
		"The process stopped on request. Pages in memory were applied, or will be read again; checkpoints were saved, and leases were released.",
		"start it again; it resumes where it stopped", ExitInterrupted},
	{NotHealthy, "the process on this machine is not live or not ready",
		"`replicator healthcheck` asked the process on this machine. The cause shows the answer, or why there is none.",
		"see its log and `replicator status`; if it listens on another address, give that with --address", ExitFailed},
	{NotAccepted, "a receiver did not accept a notification",
		"`replicator notify test` called the receivers of `notify.to` and the address of `notify.heartbeat`. At least one did not answer, or refused the call. The answers name neither addresses nor secrets.",
		"correct the address or the secret in notify.to; a proxy is taken from HTTPS_PROXY", ExitFailed},
}
