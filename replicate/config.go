package replicate

// Config is the configuration of a migration. The common settings are fields. All settings of
// replicator.yaml can be given as text in File or YAML, or, for one table, in Table.YAML. Fields
// take precedence over the text. A field with its zero value has no effect.
//
// The settings and their defaults are described in docs/reference/configuration.md.
type Config struct {
	// File is the path of a replicator.yaml. With File, YAML and Tables must be empty.
	File string
	// YAML is a configuration in the form of replicator.yaml. With Tables, it must have no key
	// `tables`.
	YAML string

	Name       string // name of the migration in the ledger (name)
	Source     Source
	Target     Target
	StateTable string // table of the ledger, in the target (state.table)
	Tables     []Table
	Backfill   Backfill

	// Listen is the address, host:port, at which Run serves the status page, health, readiness and
	// metrics. If it is empty, Run serves nothing, even if the text has http.listen.
	Listen string
}

// Source is Amazon DynamoDB.
type Source struct {
	Region string // AWS region (source.region); by default that of the AWS configuration
	// Roles are the ARNs of roles to assume, each with the one before it (source.role_arn).
	Roles []string
	// ExternalID is sent with the request for the last role (source.external_id).
	ExternalID string
	// Endpoint is the URL of DynamoDB and its streams, for an emulator. By default the AWS
	// configuration decides.
	Endpoint string
}

// Target is Cloud Bigtable.
type Target struct {
	Project    string // Google Cloud project (target.project)
	Instance   string // Bigtable instance (target.instance)
	AppProfile string // app profile (target.app_profile)
	// Emulator is the address of an emulator, host:port. By default BIGTABLE_EMULATOR_HOST names
	// it, but New refuses that variable without AllowEmulators.
	Emulator string
}

// Table is a source table and the target of its items. Without a mapping, each attribute is a
// column of the family d, and the row key is the primary key, joined with #.
type Table struct {
	From string // name of the source table, or a pattern (from)
	To   string // name of the target table; by default From (to)

	// RowKey, Columns and Cell are one rule for all items of the table.
	RowKey  string   // template of the row key, such as {customer}#{order}
	Columns []Column // target column of each attribute
	Cell    Cell     // writes the whole item as one cell

	// YAML has further keys of the table's entry in replicator.yaml, such as families, rules,
	// preset, ttl or owned. Its lines begin at the left margin.
	YAML string
}

// Column is the target column of an attribute.
type Column struct {
	Attribute string // name of the attribute; "*" for all attributes without a Column
	To        string // family:qualifier, or only a family
	As        string // encoding, such as text or dynamodb_json; by default that of the value's type
}

// Cell is the cell to which a whole item is written.
type Cell struct {
	To string // family:column; the column is a template. If To is empty, there is no cell
	As string // json or dynamodb_json
}

// Backfill are settings of the copy of existing items.
type Backfill struct {
	From             string // scan, or the folder of an export (backfill.from)
	Mode             string // auto, guarded or fast (backfill.mode)
	OnGap            string // wait or load (backfill.on_gap)
	MaxRowsPerSecond int    // limit of one process; 0 for none (backfill.max_rows_per_second)
}
