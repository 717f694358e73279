package diag

// The codes. The hundreds tell the area: 10 configuration, 11 environment of the process, 12 source, 13 target, 14 ledger,
// 15 data, 16 the program itself.
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
	OneEndpoint          = "R1101"
	EmulatorNotAllowed   = "R1102"
	NoRegion             = "R1103"
	NoAWSCredentials     = "R1104"
	NoGCPCredentials     = "R1105"
	CannotListen         = "R1106"
	InsecureEndpoint     = "R1107"
	ClockWrong           = "R1108"
	ProxyInvalid         = "R1109"
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
	SampleUnmappable     = "R1551"
	AttributesUnmapped   = "R1552"
	Internal             = "R1601"
	TimedOut             = "R1602"
	Interrupted          = "R1603"
	NotHealthy           = "R1604"
)

// Entry is what is registered for a code.
type Entry struct {
	Code    string
	Title   string // what went wrong in general, lower case, no full stop
	Explain string // when it appears and why it matters; Markdown
	Fix     string // the general remedy, used where the error itself has none more exact
	Exit    int    // exit status
}

// Entries returns all registered codes in ascending order.
func Entries() []Entry { return append([]Entry(nil), registry...) }

// Lookup returns the entry of a code.
func Lookup(code string) (Entry, bool) {
	for _, entry := range registry {
		if entry.Code == code {
			return entry, true
		}
	}
	return Entry{}, false
}

// registered returns the entry of a code, or the one of an internal error: an unregistered code must still render.
func registered(code string) Entry {
	if entry, ok := Lookup(code); ok {
		return entry
	}
	entry, _ := Lookup(Internal)
	return entry
}

// registry is kept in ascending order of codes. Texts name only commands and flags that exist.
var registry = []Entry{
	{ConfigNotFound, "configuration file not found",
		"The file is looked up in this order: `-c FILE`, `$REPLICATOR_CONFIG`, `./replicator.yaml`, `/etc/replicator/replicator.yaml`. A file named by flag or variable must exist; nothing else is tried then.",
		"name the file with -c FILE, or create ./replicator.yaml", ExitUsage},
	{ConfigUnreadable, "configuration file cannot be read",
		"The file exists, but the operating system refuses to read it, it is not a regular file, or it is larger than 1 MiB.",
		"check the permissions and the kind of the file", ExitUsage},
	{YAMLSyntax, "the configuration is not valid YAML",
		"The text cannot be parsed. The position is the line at which the parser stopped; the mistake is often one line above: a missing colon, an open quote, a tab used for indentation.",
		"correct the YAML at or just above this line", ExitUsage},
	{UnknownKey, "unknown key",
		"The configuration is strict: an unknown key is an error, because a misspelt option that is ignored silently shows only during a migration.",
		"correct the spelling, or remove the key", ExitUsage},
	{DuplicateKey, "key given twice",
		"YAML parsers differ in which of two equal keys wins, so two are refused.",
		"keep one of the two", ExitUsage},
	{WrongType, "value of the wrong kind",
		"A section, a list or a value stands where the configuration has one of the others, or a number, duration or boolean cannot be read as such.",
		"write the value as the message says", ExitUsage},
	{MissingValue, "required value missing",
		"The key has no default, and neither the file, the environment nor a flag gives it. An empty text counts as not given.",
		"add the key", ExitUsage},
	{VariableUnset, "environment variable not set",
		"A value of the file refers to `${NAME}` and the variable is not set, or to `${NAME:?message}` and it is not set or empty. An unset variable never silently becomes an empty text.",
		"set the variable, or give a default: ${NAME:-default}", ExitUsage},
	{BadExpansion, "malformed ${…}",
		"Known forms are `${NAME}` (must be set), `${NAME:-default}`, `${NAME:?message}` and `$$` for one dollar sign. They are expanded in values only, never in keys or comments, and never nested.",
		"use one of ${NAME}, ${NAME:-default}, ${NAME:?message}; write $$ for a dollar sign", ExitUsage},
	{InvalidValue, "invalid value",
		"The value is of the right kind, but outside of what is allowed for this key.",
		"choose a value that the message allows", ExitUsage},
	{NotAvailable, "not available in this version",
		"The key, value or command belongs to this program, but this version does not implement it. It is refused rather than ignored, so that a migration never runs without an option that you set.",
		"remove it, or use a version that has it", ExitUsage},
	{DuplicateTable, "source table listed twice",
		"Each source table may appear in one entry of `tables` only: two entries would own the same rows.",
		"remove one of the entries", ExitUsage},
	{SharedTarget, "two tables with one target",
		"Two entries of `tables` name the same target table, or an entry is a pattern of tables, and items of two tables could take the same row and replace each other. Entries may share a target if their row keys begin with different literals, each of them: a default row key begins with an attribute, whose value may be anything; the tables of a pattern may if every row key carries each part of the name that varies.",
		"give each entry its own `to`, or begin their row keys with different literals; carry each part of a pattern in row_key as {$name}", ExitUsage},
	{TargetNameNeeded, "the source's name cannot name a Bigtable table",
		"Without `to` the target has the source's name, which a pattern does not have. DynamoDB allows 255 characters and a leading `-` or `.`; Bigtable allows 50 characters, of which the first is a letter, a digit or `_`.",
		"add `to` with a name of at most 50 characters", ExitUsage},
	{UnknownVersion, "unknown version of the configuration format",
		"`version` says which format the file is written in; this program knows version 1.",
		"write `version: 1`, or use the release that introduced the other format", ExitUsage},
	{YAMLRefused, "YAML feature not supported",
		"Anchors, aliases, merge keys, explicit tags, keys that are not plain text and several documents in one file are refused: they make it hard to say where a value came from.",
		"write the value out at each place; use ${NAME} for what differs between environments", ExitUsage},
	{Usage, "wrong usage of a command",
		"A flag or an argument is unknown, missing or contradicts another, or a prompt is needed without a terminal.",
		"see `replicator help` and the help of the command", ExitUsage},
	{TargetIsState, "target table is the state table",
		"The state table holds leases, checkpoints and parked items; no source table may be copied into it.",
		"choose another `to`, or another `state.table`", ExitUsage},
	{RuleInvalid, "an invalid mapping rule",
		"A rule, its columns, cell or families contradict themselves, or do not define an item's cells.",
		"write the rule as the message says; the reference of the configuration has an example of each form", ExitUsage},
	{TemplateInvalid, "a row key or column template that cannot be read",
		"Templates are literals and placeholders: `invoice#{PK | after('INVOICE#')}`. A placeholder names an attribute, or with `$` a part of the source table's name, and functions behind `|`.",
		"write {attribute | function('text')}; `{{` and `}}` are braces", ExitUsage},
	{ConditionInvalid, "a condition that cannot be read",
		"`when` is a condition expression of DynamoDB with the values written in it: `begins_with(PK, \"VIDEO#\") AND SK = \"META\"`.",
		"correct the condition at the place that is named", ExitUsage},
	{FamilyUndeclared, "a column family that is used and not declared",
		"Rules may write only families that `families` of the same table declares, so that a typo does not become a family.",
		"declare the family, or correct its name", ExitUsage},
	{CounterFamily, "a counter outside of an aggregate family, or anything else in one",
		"`as: counter` writes absolute values of aggregates, which only families such as `counters: never:intsum` have; such families take nothing else. They must have no age rule: a counter's cell is at the time 0, and would be collected at once.",
		"declare a family of its own for counters, like counters: never:intsum", ExitUsage},
	{SharedFamily, "two rules of one row write the same family",
		"An item replaces all that it owns in its row. Where items of two rules live in one row, each must own families of its own, columns by name, or one cell; otherwise one would delete what the other wrote.",
		"give one of the rules another family, or make their rows differ", ExitUsage},
	{AddressAmbiguous, "two items can take the same place",
		"The row key, and for a folded item its column, must carry the whole primary key of the source table in a form that keeps its parts separate. Otherwise two items take one place one after the other, and refuse or delete each other.",
		"carry the missing attribute in the row key or column", ExitUsage},
	{RuleUnreachable, "a rule that never decides",
		"The first rule whose condition matches an item decides. An earlier rule matches everything that this one could.",
		"put the more specific rule first, or remove one", ExitUsage},
	{FamilyKeeps, "garbage collection cannot expire items",
		"`ttl: {expire: gc}` stamps cells so that they reach the age of their family's rule when the item expires. A family without such a rule keeps them, and so does one with an age of more than 50 years (18250d), because no cell can be dated before 1970.",
		"give the family's rule an age: maxversions=1 || maxage=30d; any from a millisecond to 18250d will do", ExitUsage},
	{PatternInvalid, "a pattern of table names cannot be read",
		"`from` may be a pattern: `{name:4}` stands for exactly four digits, and one part without a number for any text, so that a table's name can be cut in one way only. Row keys use the parts as `{$name}`.",
		"write it like Orders_{year:4}_{month:2}", ExitUsage},
	{HistoryImpossible, "older cells cannot be kept",
		"`keep_versions` keeps the former values of an attribute as older cells of its column, each at the time from which it was valid. It does not work with families that have an age rule, which would remove a valid value, with `expire: gc`, which uses the time of cells, nor with `as: cells`, whose cells are the elements of a list.",
		"give the family a rule by number, like `maxversions=10`, or `never`; or leave keep_versions out", ExitUsage},
	{ExpiredStay, "expired items cannot be kept by these rules",
		"`ttl: {expire: keep}` keeps in the target the items that DynamoDB's time to live removes. When the application inserts the item again under its key, that insert has no old image. If a condition, a row key or the column of a cell looks at an attribute beyond the primary key, the new image may go to another row, or to other families of the same row, and nothing would ever remove the former one: a reader would find both.",
		"write expire: follow_deletes, or use attributes of the primary key alone in when, row_key and the column of cell", ExitUsage},
	{FamilyDiffers, "two entries declare one family of one table differently",
		"Entries of `tables` that share a target table share its families, and a family has one rule of garbage collection and is of one kind. Under the other entry's rule cells could vanish too early, or stay too long. A table without `families` declares `d: maxversions=1`.",
		"declare the family in the same way in both entries, or give one of them a family or a target of its own", ExitUsage},
	{DualWritesImpossible, "a mapping that cannot be applied while the application writes the target too",
		"With `dual_writes.settle` every image is applied twice: when it is read, without touching newer cells, and again when the application's own write can no longer be under way; with `dual_writes.version_attribute` both writers set the same cells under one order, and a file has one of the two. Cells whose time means something else than when the item was changed cannot be written so: `keep_versions`, `as: cells`, and `expire: gc`.",
		"write `dual_writes: off` for this table, if nothing else writes its target; or change its mapping", ExitUsage},
	{TopicUnset, "no topic or subscription is configured",
		"`relay` publishes to a topic of Pub/Sub, `run --from pubsub` pulls a subscription of it, and the configuration does not name them.",
		"set relay.pubsub_topic: projects/PROJECT/topics/TOPIC", ExitUsage},
	{TombstonesVisible, "readers may see rows of removed items (warning)",
		"A removed item leaves a row that holds only the family `_cdc_gone`, until `state.tombstone_age` has passed; without it a late write could bring the item back. A reader that takes any row for an item would see the removed one, and every live row carries the family `_cdc`.",
		"read with a family filter that passes only your own families", ExitDone},

	{ItemsMove, "items move when an attribute changes",
		"A rule's row key or condition uses an attribute beyond the primary key. When it changes, the item moves to another row, and only the old image names the row it left: the stream must be of view type `NEW_AND_OLD_IMAGES`.",
		"check the view type of the stream, or use attributes of the primary key alone", ExitUsage},
	{HistoryEmpty, "keep_versions keeps nothing (warning)",
		"Older cells are kept as long as the family's rule of garbage collection lets them: under `maxversions=1`, which is the default, one cell of each column is left. Every put costs a read of the row all the same.",
		"declare the family with `maxversions=10` or `never`, or leave keep_versions out", ExitDone},
	{RegionUnknown, "AWS has no such region (warning)",
		"The region is none of those that this version knows. A region that does not exist has no endpoint, and every request would fail to find its host. AWS adds regions and an emulator takes any name, so this stops nothing.",
		"correct `source.region`; if the region is newer than this version, leave it as it is", ExitDone},
	{DualWritesShareRows, "the application must not delete whole rows (warning)",
		"With `dual_writes` the application writes the target too. Where several items share a row, `DeleteRow` takes the cells and versions of all of them, and those items that do not change are not written again.",
		"have the application delete the item's own cell (`DeleteFromColumn`)", ExitDone},
	{DrainHasty, "the drain of a cutover would prove little (warning)",
		"Before a cutover goes on, two complete listings of each stream must be equal, `cutover.listings_apart` apart. DynamoDB shows a new shard some time after it begins, so that listings within seconds of each other may both lack it.",
		"write `listings_apart: 2m` or more, or leave it out", ExitDone},
	{OneEndpoint, "AWS endpoints that do not fit together",
		"DynamoDB and DynamoDB Streams are two services for the AWS SDK. With only `AWS_ENDPOINT_URL_DYNAMODB` set to an emulator, the stream is read from real AWS (and the other way round), so one table would be copied while the changes of another are applied. The same holds for the `services` of an AWS profile, and for the region `local`, by which the SDK means an emulator of tables alone. " +
			"An endpoint of Amazon's, such as that of a VPC, may be set for one of them alone. It is refused if it is of another service, or of another region than requests are signed for: AWS would refuse every request.",
		"set both AWS_ENDPOINT_URL_DYNAMODB and AWS_ENDPOINT_URL_DYNAMODB_STREAMS, or AWS_ENDPOINT_URL for both, or none", ExitUsage},
	{EmulatorNotAllowed, "an endpoint is redirected without --allow-emulator",
		"Google's clients silently honour `BIGTABLE_EMULATOR_HOST` and `PUBSUB_EMULATOR_HOST`: they send everything there, unencrypted and without credentials. The AWS SDK honours `AWS_ENDPOINT_URL`, its forms for single services, and `endpoint_url` of a profile and of its `services`, be it http or a host at which AWS has no endpoint. " +
			"A setting left over in a production shell must not redirect a migration. Endpoints of the AWS services that are used, by https, need no flag, those of a VPC included. Other hosts in Amazon's domains do: anybody can rent one.",
		"unset the variable, or pass --allow-emulator if an emulator is what you want", ExitUsage},
	{NoRegion, "no AWS region",
		"Neither `source.region`, `AWS_REGION` nor the AWS profile names a region, or the name has a blank or a newline.",
		"set source.region, or AWS_REGION", ExitUsage},
	{NoAWSCredentials, "no AWS credentials, or none that can be used",
		"None of the places the AWS SDK looks at gives credentials: environment, web identity token, shared profile, container or instance role. Or what one gives cannot be sent: a newline, a blank or quotation marks in the access key, the secret or the token, which are never shown. There are no key fields in the configuration on purpose. The exit status asks a service manager to start the process again: credentials may be mounted late. A process that runs asks again until they are there.",
		"run `aws sts get-caller-identity` in the same environment until it answers", ExitFailed},
	{NoGCPCredentials, "no Google credentials",
		"Application Default Credentials were not found, cannot be read, or give no token: `GOOGLE_APPLICATION_CREDENTIALS`, then the file of gcloud, then a metadata server. Or the variable holds the credentials themselves, which are never shown, where it should name their file. The exit status asks a service manager to start the process again.",
		"run `gcloud auth application-default login`, or attach a service account", ExitFailed},
	{CannotListen, "the HTTP address cannot be opened",
		"Health, metrics and status are served on `http.listen`; another process holds the address, or it does not belong to this machine.",
		"choose another address with http.listen, REPLICATOR_HTTP_LISTEN or --listen", ExitUsage},
	{InsecureEndpoint, "an endpoint on the network without encryption",
		"An endpoint of AWS is redirected to `http://` on a host that is not this one. Items and session tokens would cross the network for all to read.",
		"write the endpoint with https://, or pass --allow-insecure-endpoint where the network is private", ExitUsage},
	{ClockWrong, "the clock of this host is wrong",
		"DynamoDB's answers say what time it is, and this host's clock is more than ten minutes off; or AWS refuses a request as signed too early or too late, which happens from five minutes on, or Google issues no token to it for that reason. DynamoDB refuses requests that such a clock dates, and every time that the worker tells would be wrong. A clock that goes wrong while a worker runs does not stop it: the log, `status` and the metric report it (`replicator_clock_offset_seconds`).",
		"set the clock, by NTP for example (timedatectl set-ntp true), and start again", ExitUsage},
	{ProxyInvalid, "the address of the proxy cannot be read",
		"Requests go through the proxy of `HTTPS_PROXY` and `HTTP_PROXY`. Go ignores an address that it cannot parse, and sends requests past the proxy. The usual reason is a user or a password with a character that a URL does not take as it is. The password is not shown.",
		"write it as http://USER:PASSWORD@HOST:PORT, with percent-encoding in USER and PASSWORD (% as %25, # as %23, / as %2F, @ as %40)", ExitUsage},

	{SourceNotFound, "source table not found",
		"DynamoDB does not know the table in this region and account.",
		"check the name, source.region and the account: aws dynamodb list-tables", ExitFailed},
	{StreamDisabled, "the table has no stream",
		"Changes are read from DynamoDB Streams, which must be enabled with new and old images. Enabling it does not affect the table's users.",
		"aws dynamodb update-table --table-name TABLE --stream-specification StreamEnabled=true,StreamViewType=NEW_AND_OLD_IMAGES", ExitFailed},
	{StreamViewUnusable, "the stream lacks the images that are needed",
		"`KEYS_ONLY` and `OLD_IMAGE` streams have no new image of an item. `NEW_IMAGE` suffices only while every row key and column address depends on the primary key alone; otherwise the old image is needed to know which row to remove. A stream's view type cannot be changed, only replaced by disabling and enabling the stream; that starts a new stream, and changes made in between are not in it.",
		"disable the stream, wait until the table is active, enable it with StreamViewType=NEW_AND_OLD_IMAGES", ExitFailed},
	{SourceDenied, "access to the source denied",
		"AWS refuses the request, and the fix that is shown fits what it says: credentials that have expired, are unknown or have another secret; a policy of a VPC endpoint, of the organization, of a boundary, of the session or of the resource; a KMS key. In all other cases the identity lacks a permission. Needed on the table: `dynamodb:DescribeTable`, `dynamodb:Scan`, and `dynamodb:GetItem` for `parked retry`, `preview` and `explain`. Needed on `table/TABLE/stream/*`: `dynamodb:DescribeStream`, `dynamodb:GetShardIterator`, `dynamodb:GetRecords`.",
		"attach the policy that `replicator plan --print-iam aws` prints to the identity", ExitFailed},
	{SourceUnreachable, "source unreachable",
		"DynamoDB or DynamoDB Streams did not answer in time, failed, or throttled all the requests of a probe, which asks again for five seconds. Common causes: no route to the endpoint, a proxy, a wrong region, an emulator that is not running.",
		"check the network, source.region and the AWS_ENDPOINT_URL… variables", ExitFailed},
	{SourceMalformed, "the source rejects a request, or its answer cannot be read",
		"DynamoDB answered, so the network works: it rejects the request (a `ValidationException`), or its answer contains something that this version does not know. A proxy, or an endpoint that is not DynamoDB, may answer like this too.",
		"look at the cause: correct what it names, or the AWS_ENDPOINT_URL… variables", ExitFailed},
	{SlowCopy, "the copy may take longer than the stream keeps changes (warning)",
		"A stream keeps changes for 24 hours. They are applied while the copy runs, so that a slow copy alone loses nothing; but a copy of more than 18 hours leaves little time to notice and repair a fault that stops the workers, and shares the limits of both stores with them all that time.",
		"raise backfill.max_rows_per_second, give the table more read capacity or the cluster more nodes, or run several workers", ExitDone},
	{StreamReaders, "a stream serves two readers per shard (warning)",
		"DynamoDB Streams supports at most two readers of a shard; with a third they throttle each other. Workers of one migration count as one reader: each shard is read by one of them. DynamoDB does not list the readers of a stream.",
		"look for Lambda triggers and other consumers of the stream, and stop those that are not needed", ExitDone},

	{WideRows, "rows that many items share grow too wide (warning)",
		"Rules fold many items into one row, and the sample maps to few rows: the table's bytes over so few rows come near the 256 MB that Bigtable " +
			"allows a row, or exceed it. A put into a row that is full fails, and is parked. The sample shows all rows only if they are few; one wide row among many is not seen.",
		"give the row key a further part, such as the day of a time or a salt, so that the items of a row stay below 100 MB; or let each item have a row of its own, under a common beginning", ExitDone},
	{ExpiredElsewhere, "items that expire in another region are removed in spite of `expire: keep` (warning)",
		"A delete by DynamoDB's time to live has a mark on its record. In a global table only the region that made the delete sets the mark: in the other regions' streams the delete looks like the application's, and is applied. " +
			"So the target loses the expired items that another region removed, and does not show which.",
		"write expire: follow_deletes, which removes all expired items; to keep them all, use one region only, or turn the time to live off while items must stay", ExitDone},
	{ExpiryDiffers, "`expire: gc` where DynamoDB does not remove items by that attribute (warning)",
		"With `expire: gc` Bigtable collects the cells of an item when the time in the attribute has come. DynamoDB's time to live is off for this table, or uses another attribute: the item stays there, and its row " +
			"has no cells, although its version says that it is applied. The rows do not stay equal to their items.",
		"turn the time to live on for this attribute (aws dynamodb update-time-to-live), name the attribute that it uses, or leave ttl out", ExitDone},
	{RecoveryOff, "point-in-time recovery is off (warning)",
		"DynamoDB exports a table only while its point-in-time recovery is on, and only from times since it was turned on. If the stream ever loses changes before they are applied, the table has to be read again as a whole; with an export that takes no read capacity.",
		"turn it on: aws dynamodb update-continuous-backups; it costs by the GB and month", ExitDone},
	{TargetUnreachable, "target unreachable",
		"Bigtable did not answer in time. Google's client reports an unreachable endpoint only as `context deadline exceeded`.",
		"check the network, and BIGTABLE_EMULATOR_HOST if you use an emulator", ExitFailed},
	{TargetDenied, "access to the target denied",
		"The identity lacks a permission. `roles/bigtable.user` on the instance reads and writes data; creating tables and families (`target.create_missing: true`) and reading the app profile need `bigtable.tables.create`, `bigtable.tables.update`, `bigtable.tables.get`, `bigtable.tables.list` and `bigtable.appProfiles.get` too.",
		"grant the role that `replicator plan --print-iam gcp` prints", ExitFailed},
	{ProfileMulti, "the app profile routes to several clusters",
		"Leases and the guard on each row are single-row transactions, and these are atomic within one cluster only. With multi-cluster routing two workers could both win.",
		"gcloud bigtable app-profiles create replicator --instance=INSTANCE --route-to=CLUSTER --transactional-writes, then target.app_profile: replicator", ExitFailed},
	{ProfileNoTxn, "the app profile does not allow single-row transactions",
		"Every write is conditional on the version that the row holds; the app profile must allow that.",
		"gcloud bigtable app-profiles update PROFILE --instance=INSTANCE --route-to=CLUSTER --transactional-writes", ExitFailed},
	{TargetTableMissing, "target table missing",
		"A target table or the state table does not exist, and `target.create_missing` is off. `replicator plan` shows the families and rules of each: a target table has those of the mapping, `_cdc` and `_cdc_gone`; the state table has families of its own.",
		"run `replicator plan --apply`, which creates it with its families, or set target.create_missing: true", ExitFailed},
	{FamilyMissing, "column family missing",
		"The table exists, but a family of it does not, and `target.create_missing` is off. It is one of the mapping, one of the program itself (`_cdc`, `_cdc_gone`), or one of the state table.",
		"run `replicator plan --apply`, which creates it with its rule, or set target.create_missing: true", ExitFailed},
	{FamilyGC, "garbage collection would remove versions that protect rows",
		"`_cdc` holds the version of each live row at a constant timestamp: an age rule would remove it at once, and older changes could return. It must have no age rule anywhere; `maxversions=1` is what is created. `_cdc_gone` holds the version of removed items and must live for `state.tombstone_age`. A family of counters must have no age rule either, because their cells are at the time 0; families of lists, of `keep_versions` and of `expire: gc` must have the rule that is declared.",
		"cbt setgcpolicy TABLE _cdc maxversions=1 and cbt setgcpolicy TABLE _cdc_gone maxage=14d (your state.tombstone_age)", ExitFailed},
	{TargetNotFound, "Bigtable instance or app profile not found",
		"Bigtable does not know the project, the instance or the app profile.",
		"check target.project, target.instance and target.app_profile: gcloud bigtable instances list", ExitFailed},
	{ViewMissing, "authorized view missing",
		"`target.view` names an authorized view of each target table, over the families of the mapping, so that readers do not meet rows of removed items. It does not exist, and `target.create_missing` is off.",
		"create it with `gcloud bigtable authorized-views create`, or set target.create_missing: true", ExitFailed},
	{TopicUnusable, "the topic or subscription cannot be used",
		"`relay` publishes to the topic of `relay.pubsub_topic`, `run --from pubsub` pulls `relay.subscription`, and parked items are published to the topic of `errors.park_to`. It does not exist, the identity may not look at it or use it, or Pub/Sub cannot be reached. Nothing passes the checkpoint before it is published.",
		"check relay.pubsub_topic, relay.subscription and errors.park_to; create it with `gcloud pubsub topics create TOPIC --message-retention-duration=7d`; grant what `replicator plan --print-iam gcp` prints", ExitFailed},
	{SubscriptionUnfit, "the subscription is not fit for applying changes",
		"`run --from pubsub` pulls a subscription of the topic that `relay` publishes to, and needs each of its messages as it was published. So it has no ordering, no exactly-once delivery, no filter and no transform, is attached to its topic, and delivers nothing by itself: to an endpoint, BigQuery, Cloud Storage or Bigtable. It keeps messages for a day or more, and for at least four days less than `state.tombstone_age`: the row of a removed item refuses older images only for that long. With a dead letter it allows 20 delivery attempts or more, with a retry policy between them: restarts of appliers use up attempts as well.",
		"create another subscription, or change this one as the message says", ExitFailed},
	{QuotaExceeded, "a quota of Google Cloud is used up",
		"Bigtable or Pub/Sub refuses a request for want of capacity, or because of a quota or a limit of the project. A start asks again for five seconds. A running worker repeats without end, and passes no checkpoint meanwhile.",
		"wait and start again; if it stays, add nodes to the cluster, or raise the quota in the console under IAM & Admin, Quotas", ExitFailed},
	{ViewDiffers, "the authorized view shows other families than the mapping writes (warning)",
		"The view of `target.view` exists and is never altered. Readers who use it miss families that the mapping writes, or see those with which the program marks rows of removed items.",
		"update the view's families, or name another view in target.view", ExitDone},
	{FamilyAges, "a family that exists collects cells of items that do not change (warning)",
		"The family has an age rule that the configuration does not declare. Bigtable collects the cells of every item that did not change for that long, while the item is still in DynamoDB and its row still holds the version that says that it is applied. A family that exists is never altered, and the rule may be intended, so this is no error; but the rows do not stay equal to their items.",
		"cbt setgcpolicy TABLE FAMILY with the rule that is declared; or, if the age is intended, declare it in families", ExitDone},
	{FenceWithheld, "late writes are not fenced (warning)",
		"Every write names a numbered family of the target table, `_cdc_w…`, and dropping that family refuses whatever a paused worker or the network delivers too late. Workers create and drop these families, with `target.create_missing: false` too. Where they may not, requests carry no number: a request that executes hours late may leave a row that no item has any more.",
		"grant bigtable.tables.update, as `replicator plan --print-iam gcp` prints; if the table is protected against deletion, lift that while it is copied", ExitDone},

	{MappingChanged, "the mapping differs from the one the ledger was started with",
		"Rows written under the old mapping stay as they are unless everything is asserted again, so a changed mapping is never applied silently. Accepting it begins a new generation and marks the table as needing a load: rows that no change has touched since stay as the former mapping wrote them until they are loaded, and rows that only the former mapping wrote, in another target for example, until the sweep after that removes them. A mapping changes too when another table comes into a target that the table had for itself: rows of a shared target name their source table.",
		"restore the old mapping, or look at what the change takes with `replicator plan`, and run once with --accept-mapping-change", ExitUsage},
	{LedgerLost, "the ledger was lost or exchanged while running",
		"The state table no longer holds what this process wrote: it was deleted, restored from a backup or replaced. Checkpoints would be unreliable, so the process stops. At the next start the target's witness rows show that the ledgers differ, and the table is marked as needing a load.",
		"find out what happened to the state table before starting again", ExitFailed},
	{TargetTaken, "another pipeline writes this target table",
		"The target table carries the witness of another pipeline for the same source table. Two pipelines would refuse each other's writes or remove each other's rows.",
		"stop the other pipeline, or choose another `to`; use one `name` for all workers of one migration", ExitFailed},
	{ClusterChanged, "the app profile now routes to another cluster",
		"Replication between clusters is asynchronous: checkpoints may have arrived where rows have not. All writes stop until somebody decides.",
		"route the app profile back to the former cluster, or stop every worker and decide with `replicator failover`", ExitFailed},
	{LedgerUnreadable, "a ledger row cannot be read",
		"A row of the state table has a form that this version does not know: it was written by a newer version, or by something else.",
		"run the newest version that has used this state table; check that nothing else writes to it", ExitFailed},
	{SourceMoved, "the source table is in another account or region than before",
		"A table of this name exists here, but it is not the one that the ledger follows: credentials or region are others than before. Its items would be written over those of the table that was copied. Nothing was changed.",
		"run with the account and region of the stream that is followed; to replicate another table, use another `name` and `to`", ExitFailed},
	{SourceRekeyed, "the source table was recreated with another primary key",
		"The table was dropped while this process ran, and one of its name was created with another primary key. The mapping was made for the former key, under which items of the new table would replace each other. Nothing of the new table was read.",
		"start again: the mapping is made for the key that the table has then. If the former table was copied, the new one needs a load", ExitFailed},
	{TargetHoldsRows, "the target table holds rows already",
		"The table was never copied under this `name`, and its target holds rows that another program wrote, or a migration whose ledger is not this one. The copy writes over rows of the same keys, so somebody has to say that it may. Nothing was created or written.",
		"if the rows may be written over: replicator run --adopt-rows, once; else choose another `to`", ExitUsage},
	{OtherMode, "the table is worked on in another mode",
		"`run` writes changes to the target alone (direct); `relay --apply` publishes them too (both); `relay` publishes them alone, and `run --from pubsub` writes them (topic). The ledger keeps which mode a table is in: a process of the other kind would move checkpoints past changes that were never published. It was refused, or, if the mode was changed while it ran, it stopped.",
		"use the command that the table was begun with; or stop all processes, and start the other one with --accept-mode-change: what is published begins or ends there, and a table that leaves its topic needs a load", ExitUsage},

	{RanksForGood, "dual_writes.version_attribute cannot be switched off",
		"The versions in the rows begin with the application's own number. They rank above every version without one, so whatever is written without numbers would be refused by those rows for ever.",
		"restore dual_writes.version_attribute; or copy again under another `name` into another `to`", ExitUsage},
	{LedgerShared, "the ledger belongs to another migration",
		"The name of a migration leads every key of its ledger. Configurations without `name` share the ledger of the name `default` if they have the state table in common, and so do a configuration and a copy of it whose `name` was kept: status counts the workers of both, and a cutover or a failover of one concerns the other.",
		"set another `name` in one of the configurations; workers of one migration share one name", ExitUsage},
	{ParkedLimit, "too many parked items",
		"More items than `errors.stop_above` could not be mapped or stored. So many are rarely single bad items; the mapping or the target needs attention. Nothing was skipped: parked items are kept, and the checkpoint has not passed what is not applied.",
		"look at them with `replicator parked list`; raise errors.stop_above only if they are expected", ExitFailed},
	{BadItemStop, "an item cannot be mapped or stored",
		"`errors.on_bad_item` is `stop`. The checkpoint stays before the change, which is read again at the next start.",
		"correct the item in the source or the mapping, or set errors.on_bad_item: park", ExitFailed},
	{NeedsLoad, "changes are missing: the table needs a load",
		"A stretch of the stream was no longer readable (streams keep 24 hours), the stream was replaced, the ledger or the target was lost, or a changed mapping was accepted. Changes go on being applied, but the target cannot be called in sync before everything was loaded again.",
		"`replicator backfill start --repair-gap` loads the tables that need it again and sweeps what is left over; `replicator backfill status` shows how far it is", ExitNo},
	{DifferencesFound, "source and target differ",
		"The comparison was complete and found rows that are missing, different or surplus.",
		"let the replicator catch up while nobody writes, and compare again; report differences that stay as a bug", ExitNo},
	{ItemsParked, "items are parked",
		"Everything else is applied, but some items could not be mapped or stored and wait for a decision.",
		"look at them with `replicator parked list` and `replicator parked show`; a corrected item in the source resolves its entry, `replicator parked retry` reads it again, and `replicator parked drop` discards it", ExitNo},
	{RetryNotYet, "an item cannot be retried yet",
		"The item's row holds no version, so the item would be stored as a load stores it. That joins the stream only when every shard carries the table's generation and each root has been read once; until then a change of the item could be lost.",
		"let `replicator run` go on for a moment, and retry", ExitFailed},
	{ItemNotFound, "no such item",
		"The source table has no item with this key. The read was strongly consistent.",
		"check the key: text, number and binary keys of the same look are different items", ExitNo},
	{TableSetAside, "a table is set aside",
		"The table's name matches a pattern, but it has no stream that can be followed, its key does not fit the mapping, or it does not exist any more. The other tables go on; it joins by itself once the cause is removed. A table that is named is set aside when it was dropped: what its stream still holds, for a day, is applied. Rows of a table that was dropped stay in the target.",
		"remove the cause that is given; for a table without a stream: aws dynamodb update-table --table-name TABLE --stream-specification StreamEnabled=true,StreamViewType=NEW_AND_OLD_IMAGES", ExitNo},
	{ExamplesDiffer, "an example of the mapping gives other cells",
		"`replicator test` ran examples of the mapping, and the results differ from those expected. The difference is shown for each: lines with - are expected, lines with + are the result.",
		"correct the mapping; or, if the new cells are right, record them with `replicator test --update`", ExitNo},
	{LoadRefused, "a load cannot be started or steered like that",
		"The table's load is not where the command would have it: it is in order, is not followed yet, or has had its one load of this generation. Or the export that was named is not whole, is of another table, or shows less than the stream goes on from. Nothing was changed.",
		"look at `replicator backfill status`; `replicator backfill redo` loads everything of a table again", ExitNo},
	{LoadWaits, "a load does not go on by itself",
		"The load is paused, its sweep waits for an operator's answer, or another gap was declared meanwhile and `backfill.on_gap` is `wait`. Changes go on being applied.",
		"look at `replicator backfill status`, whose last lines name the command that leads on", ExitNo},
	{RowsDiffer, "source and target differ",
		"`replicator verify` compared rows of the target with what the mapping of all items says, twice, and at the second look they still differed at the version that they had: they miss, hold other cells, are left of items that are gone, or hold cells in managed families that nobody of ours wrote. Changes that are under way are not counted.",
		"look at the list of what differs; `replicator explain` says everything about one key", ExitNo},
	{VerifyRefused, "a verify cannot be started or steered like that",
		"The table is not followed by a migration yet, or no verify of it is under way. Nothing was changed.",
		"look at `replicator verify status` and `replicator status`", ExitNo},
	{VerifyWaits, "a verify cannot come to its end",
		"Rows differ, and changes that were made before they were read are not applied yet, so that nothing can be said of them: no worker follows the table, or it is far behind. Or the verify is paused, or was cancelled.",
		"start `replicator run`, or wait until it has caught up; then verify again, which goes on where it was", ExitNo},
	{CutOver, "the tables are cut over",
		"The application has left the source: it writes the target itself. Nothing of ours may be written there any more, least of all by a process that was forgotten, or is started again by its supervisor. The record of it is never removed.",
		"stop the workers, and take them out of their deployment; for a new migration choose another `name` and another target table", ExitNo},
	{CutoverRefused, "the cutover cannot make this step",
		"Each step of a cutover has its place: an attempt that is under way must end before another begins, and from the switch on there is no cancel.",
		"see where it stands: `replicator cutover check`", ExitNo},
	{CutoverNotReady, "the cutover is not ready",
		"Each gate is a figure and a bound, from `cutover.ready_when`. One for which there is no figure yet is not ready either. The application is not asked to stop its writes before all are, but for those that `--override` names with a reason.",
		"run the command that is printed beside each gate", ExitNo},
	{HookFailed, "a hook of the cutover cannot be called",
		"The hooks stop, switch and release the application. Each is called with `--probe` before a cutover begins, by the process that is to drive it: it must answer that it could do its work, and do nothing.",
		"run the hook by hand with --probe, on the machine and as the user of the worker", ExitFailed},
	{CutoverCancelled, "the cutover was cancelled",
		"An operator cancelled it, a gate was not ready, a deadline passed or a hook refused. Before the switch this is always safe: the application writes the source again, and the tables go on from their checkpoints.",
		"the reason is shown by `replicator cutover check`; when it is mended, start again", ExitNo},
	{FinalizeRefused, "the target cannot be finalized",
		"What is ours in the target is what refuses late writes and proves what is there. It may go only once the tables are cut over, the watch for missed writers is over, and no worker lives that could write.",
		"wait for what the error names, then run it again", ExitNo},
	{TablePaused, "a table is paused",
		"An operator has paused the table: no worker reads its stream, copies or verifies it. The stream keeps changes for 24 hours; what is not read by then is lost, and the table needs a load.",
		"`replicator resume --table TABLE` lets it go on; `replicator status` shows since when it stands, and why", ExitNo},
	{FailoverRefused, "the migration cannot go on in another cluster yet",
		"A failover begins when nobody writes the ledger any more, and ends when nothing of before can still arrive from the former cluster: everything is copied, or the cluster is gone from the instance. Nothing was changed.",
		"do what the error names, then `replicator failover` again", ExitNo},
	{SampleUnmappable, "some of the sampled items cannot be mapped (warning)",
		"A sample of the table's items was mapped, and some of them have no place in the target: a row key or a value that Bigtable does not take. A run parks such items; the share in the sample shows how many to expect.",
		"correct the items in the source or the mapping; errors.stop_above bounds how many are parked", ExitDone},
	{AttributesUnmapped, "attributes of sampled items are not copied (warning)",
		"No rule of the table has a place for these attributes, and `drop_attributes` does not name them: they would be missing in the target without notice. Only the sample was checked.",
		"map them with a column, or `\"*\"` for all that is not named; or name them in drop_attributes", ExitDone},

	{Internal, "internal error",
		"The program found itself in a state that should not exist. It stops rather than guess; the checkpoint has not passed what is not applied, so a restart is safe.",
		"restart; if it comes back, report it with this message and the output of `replicator version`", ExitFailed},
	{TimedOut, "timed out",
		"The command did not finish within the given time. Nothing was undone.",
		"wait longer with --timeout, or look at `replicator status`", ExitTimeout},
	{Interrupted, "interrupted",
		"The process was asked to stop and did: pages that were read were finished or dropped, checkpoints are saved, leases are released.",
		"start it again; it continues where it stopped", ExitInterrupted},
	{NotHealthy, "the process on this machine is not live or not ready",
		"`replicator healthcheck` asked the process on this machine; what it says, or that it does not answer, is the cause.",
		"look at its log and at `replicator status`; if it listens elsewhere, name that with --address", ExitFailed},
}
