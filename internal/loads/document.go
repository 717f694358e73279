package loads

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
)

// schemaName identifies the document's schema, backfill.schema.json.
const schemaName = "replicator.backfill/v1"

// Document is the state of a migration's loads: the document of every `backfill` command and of
// `throttle` with -o json. Unknown values are null.
type Document struct {
	Schema string    `json:"schema"`
	Name   string    `json:"name"`
	At     time.Time `json:"at"`
	// DryRun reports whether this was a dry run. A dry run changes nothing, and decided holds the
	// planned changes.
	DryRun  bool      `json:"dry_run"`
	Decided []Decided `json:"decided"`
	Tables  []Table   `json:"tables"`
	// PricesDate is the date of the list prices in this document.
	PricesDate string              `json:"prices_date"`
	Currency   string              `json:"currency"` // currency of the costs in this document
	NextSteps  []standing.NextStep `json:"next_steps"`

	left error // the error of further commands, if the application has left the source
}

// Decided is the effect of a command on one table.
type Decided struct {
	Source string `json:"source"`
	Action string `json:"action"` // start, pause, resume, redo, cancel, throttle, none or refused
	Why    string `json:"why"`
	// Estimate is null unless the command ran with --dry-run or began a load.
	Estimate *Estimate `json:"estimate"`
	// Ways are the ways to repair the table, with their prices. It is null unless the command was
	// backfill repair and the table needs one.
	Ways []Way `json:"ways"`
}

// Estimate is the expected duration and cost of a load.
type Estimate struct {
	Mode  string `json:"mode"`  // how rows are written: guarded or fast
	Items int64  `json:"items"` // DynamoDB's count, which may be hours old
	Bytes int64  `json:"bytes"`
	Parts int    `json:"parts"`
	// Seconds is the time that one worker needs.
	Seconds   *float64    `json:"seconds"`
	LimitedBy string      `json:"limited_by"`
	Cost      []cost.Line `json:"cost"`
	Sweep     string      `json:"sweep"` // the expected sweep after the copy
}

// Table is one source table.
type Table struct {
	Source     string  `json:"source"`
	Target     string  `json:"target"`
	Generation *uint32 `json:"generation"` // null before the first start
	// State is not_started, asked, copying, sweeping, waiting_for_approval or done.
	State           standing.LoadState `json:"state"`
	Paused          *string            `json:"paused"` // why the load is paused, such as operator or headroom; null if not paused
	Needed          bool               `json:"needs_load"`
	NeedsLoadReason *string            `json:"needs_load_reason"`
	// LossKind is the widest kind of loss that needs repair.
	LossKind *string    `json:"loss_kind"`
	LostFrom *time.Time `json:"lost_from"` // an event time before which the stream lost nothing
	// WindowsBy is a limit for incremental exports, not a deadline. They repair the loss only if
	// the period of the first one begins at this time or earlier. It is null if only a copy can
	// repair it.
	WindowsBy *time.Time `json:"windows_by"`
	Tries     int        `json:"tries"` // number of loads that began since the last complete load
	Load      *Load      `json:"load"`
	Limits    Limits     `json:"limits"`
}

// Load is the last load of a table.
type Load struct {
	Number uint32 `json:"number"`
	// Mode is how rows are written: guarded or fast. It is null until the load is planned.
	Mode *string `json:"mode"`
	// Guarded explains why the load is not fast. It is null if it is fast, or if no fast
	// load was wanted.
	Guarded *string  `json:"guarded_because"`
	Exports []string `json:"exports"` // addresses of the exports that the load copies; empty for a scan
	// ExportStates is the progress of each export that the load copies or has requested.
	ExportStates  []ExportState `json:"export_states"`
	AskedAt       *time.Time    `json:"asked_at"`
	StartedAt     *time.Time    `json:"started_at"`
	CopiedAt      *time.Time    `json:"copied_at"`
	SweptAt       *time.Time    `json:"swept_at"`
	Parts         Parts         `json:"parts"` // parts of the current phase
	Items         int64         `json:"items"`
	Bytes         int64         `json:"bytes"`
	Estimate      *int64        `json:"estimate"` // DynamoDB's count when the load began, which may be hours old
	EstimateBytes *int64        `json:"estimate_bytes"`
	// ItemsPerSecond is the rate over the last five minutes.
	ItemsPerSecond *float64 `json:"items_per_second"`
	// ETASeconds is the estimated time until the copy is complete. It is null in the first minute,
	// and before 1 % of the items are copied.
	ETASeconds *float64 `json:"eta_seconds"`
	ReadUnits  float64  `json:"read_units"` // read units consumed so far
	// Spent is the cost so far, at list prices.
	Spent  []cost.Line `json:"spent"`
	Slowed []string    `json:"slowed"` // why the load is not faster
	Sweep  Sweep       `json:"sweep"`

	copiedFrom string // see CopiedFrom
	copying    bool   // a fast load is not swept yet
}

// Parts counts the parts of a phase.
type Parts struct {
	Total int `json:"total"`
	Done  int `json:"done"`
	Held  int `json:"held"` // parts that workers have leased
}

// Sweep is the state of the sweep, which after the copy examines the rows that the copy did not
// write.
type Sweep struct {
	// Pass is the number of the sweep's pass. Pass 0 only counts rows. It is null before the first
	// pass.
	Pass        *int       `json:"pass"`
	BegunAt     *time.Time `json:"begun_at"`
	Approved    bool       `json:"approved"`
	Seen        int64      `json:"rows_seen"`
	Put         int64      `json:"rows_put"`
	Removed     int64      `json:"rows_removed"`
	Unexplained int64      `json:"rows_unexplained"`
}

// Limits are the limits in force. A limit that is null does not exist.
type Limits struct {
	MaxRowsPerSecond    *float64   `json:"max_rows_per_second"`
	MaxReadCapacity     *string    `json:"max_read_capacity"`
	PauseAboveTargetCPU *string    `json:"pause_above_target_cpu"`
	ChangedAt           *time.Time `json:"changed_at"` // when throttle changed them; null for the configured limits
}
