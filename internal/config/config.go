// Package config reads and checks replicator.yaml.
//
// The schema is the Config type itself: its struct tags define each key, its default and its
// allowed values. The decoder, the printer and the environment overlay all use this schema. A new
// key needs only a new field.
//
//	key       name in the file
//	default   value if the key is not given
//	required  example value; the key has no default and must be given
//	oneof     allowed values, separated by commas
//	later     values of the format that this version does not implement; a trailing * matches anything
//	min, max  bounds, inclusive
//	check     named check of a string, see names.go
//	env       environment variable that overrides the file
//	unset the meaning of an empty value; Print shows it
//	single a list that may be written as its only element
//	filled a given list must not be empty, because its meaning would be unclear
//	omit      not printed if it is empty
//	short for a dictionary: the key that an entry sets if it is a single value
//	secret an address that may contain a secret; Print shows only its host
//
// A value is taken from the first of: command-line flag, REPLICATOR_* variable, file, default. The
// variables are REPLICATOR_NAME, REPLICATOR_HTTP_LISTEN, REPLICATOR_LOG_LEVEL and
// REPLICATOR_LOG_FORMAT; REPLICATOR_CONFIG names the file itself. All other values can vary between
// environments through ${NAME} in the file.
//
// Rules that hold for every key:
//   - Every mistake is reported, not only the first, each with file:line:column.
//   - Values keep the text that was typed: 2015_01 is a name, not the number 201501.
//   - An empty text ("", or ${NAME:-} without NAME) counts as not given. A key with nothing after its colon is a mistake,
//     except for a section, which is then empty.
//   - Parts of the format that this version does not implement are refused by name, never ignored.
package config

import (
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/pattern"
)

// Config is the effective configuration. It is read-only after Load.
type Config struct {
	Version    int        `key:"version" required:"1" check:"version"`                      // format of this file: 1
	Name       string     `key:"name" default:"default" check:"name" env:"REPLICATOR_NAME"` // migration id: prefix of every ledger row
	Source     Source     `key:"source"`                                                    // Amazon DynamoDB
	Target     Target     `key:"target"`                                                    // Cloud Bigtable
	State      State      `key:"state"`                                                     // replicator's own data in the target instance
	Tables     []Table    `key:"tables" required:"at least one entry"`                      // source tables, and the targets of their items
	Apply      string     `key:"apply" default:"guarded" oneof:"guarded" later:"bulk"`      // how changes are written
	DualWrites DualWrites `key:"dual_writes" omit:"true"`                                   // settings for applications that write both databases
	Backfill   Backfill   `key:"backfill"`                                                  // the copy of existing items
	Verify     Verify     `key:"verify"`                                                    // the comparison of source and target
	Cutover    Cutover    `key:"cutover"`                                                   // the move of the application from DynamoDB to Bigtable
	Relay      Relay      `key:"relay"`                                                     // publishing of changes to Pub/Sub
	Errors     Errors     `key:"errors"`                                                    // handling of items that cannot be mapped or stored; none is ever skipped
	HTTP       HTTP       `key:"http"`                                                      // server of health, metrics and status
	Notify     Notify     `key:"notify" omit:"true"`                                        // notifications of troubles and steps, sent by the processes of run
	Log        Log        `key:"log"`                                                       // log on stderr

	// where holds the position of each given value and of each section, by path ("tables[0].from").
	// A value that is a default has no position. The position of a section is the position of its
	// key.
	where map[string]diag.Position
	forms map[string]written // form of each value in the file
}

// Start is the point from which a table's changes are applied while it has no checkpoint.
type Start string

const (
	StartHorizon Start = "trim_horizon" // apply all changes that the stream still holds
	// StartNow reads all changes that the stream still holds, but applies only changes made after
	// the first start.
	StartNow Start = "now"
)

// Source is Amazon DynamoDB.
type Source struct {
	Region     string        `key:"region" check:"region" unset:"from the AWS SDK's chain"`                       // AWS region of the tables
	Roles      []string      `key:"role_arn" check:"role" single:"true" filled:"true" unset:"no role is assumed"` // role to assume with the identity of the AWS SDK's chain. With a list, each role is assumed with the one before it, and the last one reads the tables
	ExternalID string        `key:"external_id" check:"external_id" unset:"none is sent"`                         // external id that the trust policy of role_arn asks for. In a list of roles it is sent for the last one
	Start      Start         `key:"start" default:"trim_horizon" oneof:"trim_horizon,now"`                        // where to start reading a stream that has no checkpoint yet
	Poll       time.Duration `key:"poll" default:"1s" min:"200ms" max:"1m"`                                       // time between reads of an idle shard; after minutes without a change at least 3s
	PollActive time.Duration `key:"poll_active" default:"250ms" min:"200ms" max:"1m"`                             // time between reads of a shard that had a change in the last 10s, and of all shards from a cutover's checks to the end of its freeze
}

// Target is Cloud Bigtable.
type Target struct {
	Project       string `key:"project" required:"my-project" check:"resource"`          // Google Cloud project
	Instance      string `key:"instance" required:"my-instance" check:"resource"`        // Bigtable instance
	AppProfile    string `key:"app_profile" default:"default" check:"resource"`          // app profile with single-cluster routing and single-row transactions
	CreateMissing bool   `key:"create_missing" default:"true"`                           // create missing tables, families and views, including replicator's own tables. Existing ones are never altered
	Shared        bool   `key:"shared"`                                                  // true: other migrations also write these tables. Every row names its origin, and replicator never removes rows of another origin
	View          string `key:"view" check:"view" unset:"no authorized view is created"` // id of an authorized view of each target table; the view shows the mapped families
}

// State configures the table in which replicator keeps its own data, in the target instance.
type State struct {
	Table        string        `key:"table" default:"replicator_state" check:"bigtable_table"` // table for leases, checkpoints and parked items
	TombstoneAge time.Duration `key:"tombstone_age" default:"14d" min:"4d" max:"3650d"`        // how long the tombstone of a removed item is kept
	Lease        time.Duration `key:"lease" default:"15s" min:"5s" max:"5m"`                   // length of a lease; workers renew a lease three times within this time
}

// Table is one source table and the target of its items. It can also be a pattern, which stands for
// every table with a matching name. Mapping, in mapping.go, defines the cells.
type Table struct {
	From          string        `key:"from" required:"Orders" check:"dynamodb_table"`                                          // the table's name or ARN, or a pattern that matches several names: Orders_{year:4}_{month:2}. A table of another account needs its ARN
	To            string        `key:"to" check:"target_table"`                                                                // target table in Bigtable; default the source table's name
	Start         Start         `key:"start" oneof:"trim_horizon,now"`                                                         // overrides source.start
	DiscoverEvery time.Duration `key:"discover_every" omit:"true" min:"1s" max:"1d"`                                           // how often to search for new tables that match a pattern; default 5m
	Families      []Family      `key:"families" omit:"true"`                                                                   // column families of the target that rules write; default d: maxversions=1
	Preset        string        `key:"preset" omit:"true" oneof:"google-migration-utility,google-migration-utility-corrected"` // layout for a table without rules, and for rules with neither columns nor a cell
	Drop          []string      `key:"drop_attributes" omit:"true"`                                                            // attributes that are not copied, unless a rule names them
	Rules         []Rule        `key:"rules" omit:"true"`                                                                      // the first rule that matches an item applies; without rules each attribute is a column
	KeepVersions  bool          `key:"keep_versions" omit:"true"`                                                              // keep former values as older cells, within the limits of the families' rules
	TTL           TTL           `key:"ttl" omit:"true"`                                                                        // the time-to-live attribute, and what happens to expired items
	Owned         bool          `key:"owned" omit:"true"`                                                                      // true: no other program writes the target. The sweep after a load then also removes orphan rows without a replicator version
	DualWrites    string        `key:"dual_writes" omit:"true" oneof:"off"`                                                    // off: only replicator writes this target table
	BackfillFrom  string        `key:"backfill_from" omit:"true" check:"images"`                                               // overrides backfill.from
	BackfillMode  string        `key:"backfill_mode" omit:"true" oneof:"auto,guarded,fast"`                                    // overrides backfill.mode

	where   map[string]diag.Position // positions of the values; the same map as in Config
	written map[string]written       // form of each value in the file
	refused map[string]bool          // paths that the decoder refused
	index   int                      // index in Config.Tables
	merged  bool                     // another table has the same target
	// number is dual_writes.version_attribute; "" if the table has `dual_writes: off`.
	number string

	arn      string            // ARN of the table; "" if the entry has a name or a pattern
	pattern  pattern.Pattern   // nil if the entry names one table
	text     string            // text of the pattern
	captures map[string]string // captures of one table that matches the pattern; nil for the entry itself
}

// Family is a column family: a garbage collection rule and, after a colon, an aggregate.
type Family struct {
	Name string `key:"@" short:"rule"`
	Rule string `key:"rule" check:"mapping"` // garbage collection rule and, after a colon, an aggregate, as in cbt: maxversions=1 || maxage=30d
}

// Rule defines the cells of the items that a condition matches.
type Rule struct {
	Name    string   `key:"name" check:"mapping" omit:"true"`                      // name of the rule in messages and metrics
	When    string   `key:"when" check:"condition" omit:"true"`                    // DynamoDB condition with literal values; default every item
	Ignore  bool     `key:"ignore" omit:"true"`                                    // do not copy these items; only count them
	To      string   `key:"to" json:",omitempty" check:"target_table" omit:"true"` // target table of these items; default the entry's target
	RowKey  string   `key:"row_key" check:"mapping" omit:"true"`                   // template of the row key; default the primary key, joined with #
	Columns []Column `key:"columns" omit:"true"`                                   // the target column of each attribute: a family, family:column, or a section with to, as and value
	Cell    Cell     `key:"cell" omit:"true"`                                      // writes the item as one cell of a row that other items share
	Write   []Write  `key:"write" omit:"true"`                                     // several rows for one item, each with its own row_key, and optionally its own target table (to)
}

// Write is one of several rows of an item.
type Write struct {
	To      string   `key:"to" json:",omitempty" check:"target_table" omit:"true"` // target table of this row; default the entry's target
	RowKey  string   `key:"row_key" check:"mapping" omit:"true"`                   // template of the row key
	Columns []Column `key:"columns" omit:"true"`                                   // the target column of each attribute
	Cell    Cell     `key:"cell" omit:"true"`                                      // writes the item as one cell of the row
}

// Column defines the target column of an attribute; "*" defines the columns of all attributes that
// have no column of their own.
type Column struct {
	Attribute string `key:"@" short:"to"`
	To        string `key:"to" check:"mapping" required:"d"`                                                                                            // family:qualifier, or only a family for a column with the attribute's name
	As        string `key:"as" omit:"true" oneof:"text,json,dynamodb_json,int64,float64,bytes,columns,counter,cells,flattened,google_utility,float32s"` // encoding of the value; default by the value's type
	Value     string `key:"value" check:"mapping" omit:"true"`                                                                                          // with as: columns, the value of the columns that the members of a set become; default empty
}

// Cell makes an item one cell of a row that other items share.
type Cell struct {
	To   string   `key:"to" check:"mapping" omit:"true"`            // family:column; the column is a template
	As   string   `key:"as" omit:"true" oneof:"json,dynamodb_json"` // encoding of the item
	Only []string `key:"only" omit:"true" filled:"true"`            // attributes to write; default all except drop_attributes
}

// TTL is the source's time-to-live attribute, and the handling of items that expire.
type TTL struct {
	Attribute string `key:"attribute" check:"mapping" omit:"true"`             // name of an attribute of type N, in seconds since 1970
	Expire    string `key:"expire" omit:"true" oneof:"gc,follow_deletes,keep"` // gc: garbage collection removes the cells; follow_deletes: DynamoDB's deletes are applied; keep: deletes of expired items are not applied (requires rules that use only the primary key)
}

// DualWrites configures tables with a target that the application also writes.
type DualWrites struct {
	VersionAttribute string        `key:"version_attribute" check:"mapping" omit:"true" unset:"writes are ordered by the stream"`     // attribute of type N, below 10^20, that orders the writes of the application and of replicator. The application must raise it with each write of an item, and that write must be conditional
	Settle           time.Duration `key:"settle" omit:"true" min:"1s" max:"10m" unset:"no other program may write the target tables"` // longest time from a commit in DynamoDB to the application's last attempt to write Bigtable. After this time, replicator writes each change a second time
}

// Late returns the maximum time between a change in the source and the application's own write to
// the table's target; 0 if there is no such write.
func (c *Config) Late(t Table) time.Duration {
	if t.DualWrites == "off" || c.DualWrites.VersionAttribute != "" {
		return 0
	}
	return c.DualWrites.Settle
}

// DualWritten reports whether the application also writes the table's target, with settle or with
// version_attribute.
func (c *Config) DualWritten(t Table) bool { return c.Late(t) > 0 || t.number != "" }

// Backfill configures the copy of existing items.
type Backfill struct {
	From                string   `key:"from" default:"scan" check:"images"`                                                            // source of a table's first load: scan, or the folder of a full export (s3://…, gs://… or a directory that every worker can read). {table} is replaced with the source table's name
	WholeExport         bool     `key:"whole_export" default:"false" omit:"true"`                                                      // confirms that the exports have no filter, projection or key conditions. Needed if DynamoDB cannot describe the exports
	ExportsTo           string   `key:"exports_to" check:"destination" unset:"backfill repair needs --export for exports" omit:"true"` // where DynamoDB writes the exports that backfill repair requests: s3://BUCKET or s3://BUCKET/PREFIX
	MaxReadCapacity     Capacity `key:"max_read_capacity" check:"capacity" unset:"no limit"`                                           // limit on reads of each source table by all workers: a share of its provisioned read capacity, such as 25%, or read units a second
	MaxRowsPerSecond    int      `key:"max_rows_per_second" default:"0" min:"0" max:"100000000"`                                       // limit on the rows that one process copies per second, for all tables together; 0 means no limit
	PauseAboveTargetCPU Percent  `key:"pause_above_target_cpu" check:"percent" unset:"loads ignore the CPU"`                           // loads wait while Cloud Monitoring reports a higher CPU load for a cluster of the target
	Mode                string   `key:"mode" default:"auto" oneof:"auto,guarded,fast"`                                                 // how loads write rows. guarded: under a condition; fast: many rows in one request, only for the first load into a table that replicator created; auto: fast if that is allowed
	Fast                bool     `key:"fast" default:"false" oneof:"false" omit:"true"`                                                // has no effect; see mode
	OnGap               string   `key:"on_gap" default:"wait" oneof:"wait,load"`                                                       // how a load begins after a gap. wait: an operator starts it; load: it starts automatically
	Export              Export   `key:"export" omit:"true"`                                                                            // the S3 bucket of exports
	SkipExpired         bool     `key:"skip_expired" default:"false"`                                                                  // do not copy expired items that DynamoDB has not removed yet
	Segments            int      `key:"segments" default:"4" min:"1" max:"1000000"`                                                    // parallel Scan segments per table; DynamoDB's limit is 1,000,000
}

// Export describes the S3 bucket to which `backfill start --request-export` lets DynamoDB export a
// table, and from which exports are read.
type Export struct {
	KMSKey        string `key:"kms_key" check:"kms_key" unset:"keys of S3"`                      // id or ARN of the KMS key that encrypts a requested export
	BucketOwner   string `key:"bucket_owner" check:"account" unset:"the identity's own account"` // account that owns the bucket of a requested export
	RequesterPays bool   `key:"requester_pays" default:"false"`                                  // true: the identity's own account pays for reading exports, as a bucket with Requester Pays requires
}

// Verify configures the comparison of source and target.
type Verify struct {
	Sample Percent       `key:"sample" default:"1%" check:"percent"`                // share of the items that workers compare after a change; a hash of the key chooses them
	Every  time.Duration `key:"every" unset:"never" omit:"true" min:"10s" max:"1d"` // how often workers compare the sampled items that changed recently
	Settle time.Duration `key:"settle" default:"30s" min:"1s" max:"10m"`            // how long to wait before a row that still differs is read once more
}

// Cutover configures the move of the application from DynamoDB to Bigtable.
type Cutover struct {
	ReadyWhen        ReadyWhen        `key:"ready_when"`                                                                                           // gates that must be ready before the application's writes are frozen
	RequestExpires   time.Duration    `key:"request_expires" default:"15m" min:"1s" max:"30d"`                                                     // how long a requested cutover may wait for approval, for the hours of --between and for its gates
	ListingsApart    time.Duration    `key:"listings_apart" unset:"no effect" omit:"true" min:"1s" max:"1h"`                                       // has no effect; see listing_bound
	ListingBound     time.Duration    `key:"listing_bound" default:"2m" min:"1s" max:"1h"`                                                         // how late the stream may list a child shard after its parent has ended
	Fence            string           `key:"fence" default:"after_switch" oneof:"after_switch,before_switch"`                                      // when late writes of replicator are rejected. before_switch: writes stay frozen about 25 s longer, but no process has to answer
	FreezeAtMost     time.Duration    `key:"freeze_at_most" default:"8s" min:"1s" max:"1h"`                                                        // limit on the expected duration of a freeze. A cutover waits until a freeze is expected to be that short. Settings that need more time raise this limit
	FreezeDeadline   time.Duration    `key:"freeze_deadline" unset:"30s, or twice freeze_at_most if that is longer" omit:"true" min:"1s" max:"1d"` // how long a try may freeze writes, in addition to the time that the hook freeze_writes may take. Then the application resumes
	Deadlines        CutoverDeadlines `key:"deadlines" omit:"true"`                                                                                // has no effect; see freeze_deadline
	Tries            int              `key:"tries" default:"3" min:"1" max:"20"`                                                                   // how often a cutover may freeze writes. A try that would take longer than freeze_at_most is abandoned, and the application writes until the next one
	WatchFor         time.Duration    `key:"watch_for" default:"24h" min:"1s" max:"14d"`                                                           // how long workers watch the stream for late writers after the switch
	Groups           []CutoverGroup   `key:"groups" omit:"true"`                                                                                   // tables that are cut over together, by the name of the group. By default, tables that share a target table form a group
	Hooks            CutoverHooks     `key:"hooks"`                                                                                                // hooks that freeze, switch and unfreeze the application; give all three or none. With freeze: table_policy, freeze_writes and unfreeze_writes may be left out
	KeepFallback     bool             `key:"keep_fallback" default:"false"`                                                                        // true: plan checks, prices and enables what a way back needs. cutover start still asks whether to keep it
	RollbackHooks    RollbackHooks    `key:"rollback_hooks"`                                                                                       // hooks that freeze, switch and unfreeze the application in a rollback; give all three or none. The limits of hooks hold for them too
	RollbackDeadline time.Duration    `key:"rollback_deadline" default:"15m" min:"1m" max:"1d"`                                                    // how long a rollback may freeze writes, in addition to the time that its hook freeze_writes may take
	Freeze           string           `key:"freeze" default:"hook" oneof:"hook,table_policy"`                                                      // what freezes writes. hook: freeze_writes alone; table_policy: a Deny in the resource policy of each source table, after freeze_writes if that hook is given
	ProbeRole        string           `key:"probe_role_arn" check:"role" unset:"writes cannot be frozen by table_policy" omit:"true"`              // role that tries to write the source tables, to prove that table_policy has frozen them. It needs the right to write them
	Exempt           []string         `key:"freeze_exempt" check:"principal" omit:"true" filled:"true"`                                            // ARNs of further roles and users that may write while table_policy freezes the tables
}

// CutoverGroup is a group of tables that are cut over together.
type CutoverGroup struct {
	Name   string   `key:"@" short:"tables"`
	Tables []string `key:"tables" check:"dynamodb_table" filled:"true"` // source tables, by name or ARN, or patterns as they are written under tables
}

// ReadyWhen are the gates of a cutover.
type ReadyWhen struct {
	LagBelow     time.Duration `key:"lag_below" default:"5s" min:"1s" max:"1h"`                  // maximum lag of every shard
	LagHeldFor   time.Duration `key:"lag_held_for" default:"10m" min:"0s" max:"1d"`              // how long the lag of every shard must have stayed below lag_below
	VerifyWithin time.Duration `key:"verify_clean_within" default:"1h" min:"1s" max:"1d"`        // maximum age of the last verify, which must be clean. The last full verify may be up to one day old
	ParkedAtMost int           `key:"parked_items_at_most" default:"0" min:"0" max:"1000000"`    // maximum number of parked items
	Headroom     time.Duration `key:"retention_headroom_above" default:"12h" min:"1m" max:"23h"` // minimum time left until the stream drops unread changes
}

// CutoverDeadlines are deadlines of single steps. A try of a cutover has one deadline.
type CutoverDeadlines struct {
	Freeze time.Duration `key:"freeze" unset:"no effect" omit:"true" min:"1s" max:"1d"` // read as hooks.freeze_within
	Drain  time.Duration `key:"drain" unset:"no effect" omit:"true" min:"1s" max:"1d"`  // has no effect; see freeze_deadline
	Verify time.Duration `key:"verify" unset:"no effect" omit:"true" min:"1s" max:"1d"` // has no effect; see freeze_deadline
	Fence  time.Duration `key:"fence" unset:"no effect" omit:"true" min:"1s" max:"1d"`  // has no effect; see freeze_deadline
}

// CutoverHooks are https:// addresses or commands. Paths of commands are relative to the
// configuration's folder.
type CutoverHooks struct {
	FreezeWrites   string `key:"freeze_writes" check:"hook" unset:"no cutover can be started"`   // stops the application's writes, and succeeds when no write is in flight
	Switch         string `key:"switch" check:"hook" unset:"no cutover can be started"`          // moves the application to the target
	UnfreezeWrites string `key:"unfreeze_writes" check:"hook" unset:"no cutover can be started"` // lets the application write the source again
	// maximum duration of one call. A call also ends at the deadline of the try
	Timeout      time.Duration `key:"timeout" default:"10m" min:"1s" max:"1h"`
	FreezeWithin time.Duration `key:"freeze_within" default:"1m" min:"1s" max:"1d"` // how long freeze_writes may take, including repeated calls
}

// RollbackHooks are the hooks of a rollback, in the form of CutoverHooks.
type RollbackHooks struct {
	FreezeWrites   string `key:"freeze_writes" check:"hook" unset:"no fallback can be kept"`   // stops the application's writes to the target, and succeeds when no write is in flight
	Switch         string `key:"switch" check:"hook" unset:"no fallback can be kept"`          // moves the application back to the source
	UnfreezeWrites string `key:"unfreeze_writes" check:"hook" unset:"no fallback can be kept"` // lets the application write the target again
}

// Relay configures the topic to which `replicator relay` publishes changes, and the subscription
// from which other processes apply them.
type Relay struct {
	Topic        string `key:"pubsub_topic" check:"topic" unset:"changes are not published"`                    // topic to which relay publishes changes: projects/PROJECT/topics/TOPIC
	Subscription string `key:"subscription" check:"subscription" unset:"nothing is applied from the topic"`     // subscription of the topic, for run --from pubsub; R1311 lists unsuitable settings
	DeadLetter   string `key:"dead_letter" check:"subscription" unset:"the dead-letter topic is not monitored"` // subscription of the dead-letter topic. While it has a message, no table is in sync
	Buckets      int    `key:"ordering_buckets" default:"256" min:"0" max:"65536"`                              // ordering keys of a table: each item belongs to one of these buckets. 0: a key for each item, which makes publishing slower
	Format       string `key:"format" default:"cloudevents_json" oneof:"cloudevents_json"`                      // message format: CloudEvents 1.0 in structured mode
}

// BadItem is the handling of an item that cannot be mapped or stored.
type BadItem string

const (
	BadItemPark BadItem = "park" // park the change with its reason, and continue
	BadItemStop BadItem = "stop" // stop before the change
)

// Errors is the policy for items that cannot be mapped or stored. No item is ever skipped.
type Errors struct {
	OnBadItem BadItem `key:"on_bad_item" default:"park" oneof:"park,stop"`           // park: record the item and its reason, and continue; stop: stop before the item
	ParkTo    string  `key:"park_to" default:"state" check:"park_to" later:"file:*"` // where parked items are kept. state: in the state table; pubsub://projects/PROJECT/topics/TOPIC: in the state table, and as a message to that topic
	StopAbove int     `key:"stop_above" default:"1000" min:"0" max:"1000000000"`     // the process stops above this number of parked items
}

// Topic returns the topic to which parked items are published (projects/PROJECT/topics/TOPIC), or
// "" if they are not published.
func (e Errors) Topic() string {
	topic, published := strings.CutPrefix(e.ParkTo, "pubsub://")
	if !published {
		return ""
	}
	return topic
}

// HTTP is the server of health, metrics and status.
type HTTP struct {
	Listen   string `key:"listen" default:"127.0.0.1:8080" check:"listen" env:"REPLICATOR_HTTP_LISTEN"` // address to listen on, host:port
	ShowKeys bool   `key:"show_keys" default:"false" oneof:"false" later:"true"`                        // false: keys are never shown
}

// Notify configures notifications. Addresses must be https://, or http:// on this machine.
type Notify struct {
	Heartbeat string     `key:"heartbeat" check:"address" secret:"true" omit:"true" unset:"no heartbeat is sent"` // address that is asked with GET each minute while the state of the migration can be read. A monitor outside of the cluster reports its silence
	To        []Receiver `key:"to" omit:"true"`                                                                   // receivers of notifications
}

// Receiver is an address that receives notifications. One of url and url_file names the address;
// for pagerduty it may be omitted. Relative paths start at the configuration's folder.
type Receiver struct {
	URL        string `key:"url" check:"address" secret:"true" omit:"true" unset:"see url_file"` // address that is called with POST. Write ${NAME} if it contains a secret
	URLFile    string `key:"url_file" check:"mapping" omit:"true" unset:"see url"`               // file with the address. It is read before each call, so it can be replaced
	Format     string `key:"format" omit:"true" oneof:"json,slack,pagerduty"`                    // json (default): docs/reference/json.md; slack: incoming webhook; pagerduty: Events API v2
	SecretFile string `key:"secret_file" check:"mapping" omit:"true" unset:"see secret_env"`     // file with the secret: for json, the key of the signature; for pagerduty, the routing key. It is read before each call
	SecretEnv  string `key:"secret_env" check:"variable" omit:"true" unset:"no secret"`          // environment variable with the secret, instead of secret_file
}

// Log configures the log on stderr.
type Log struct {
	Level  string `key:"level" default:"info" oneof:"debug,info,warn,error" env:"REPLICATOR_LOG_LEVEL"` // lowest level to log
	Format string `key:"format" default:"auto" oneof:"auto,text,json" env:"REPLICATOR_LOG_FORMAT"`      // auto: text on a terminal. Elsewhere: json for `run`, `relay` and `-o json`, text for other commands
}

// Where returns the position of a value by its path, such as "log.level" or "tables[0].from". For a
// value from the file it is the position in the file; from an environment variable, "$NAME"; from a
// flag, the flag's name. For a default it is the zero Position.
func (c *Config) Where(path string) diag.Position { return c.where[path] }

// notAvailable lists the keys that the format defines and this version does not implement, with the
// behaviour of this version. Such keys are refused, because an operator might rely on them.
var notAvailable = map[string]string{}
