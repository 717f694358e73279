package plan

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/policy"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
)

// Document is the result of plan, which is rendered as text or as JSON.
type Document struct {
	Schema   string             `json:"schema"` // replicator.plan/v1
	Name     string             `json:"name"`
	At       time.Time          `json:"at"`
	Source   string             `json:"source"`
	Target   string             `json:"target"`
	Emulator bool               `json:"emulator"`
	Checks   []preflight.Answer `json:"checks"`
	Create   []Creation         `json:"create"`
	Created  []string           `json:"created"` // created by --apply
	Tables   []Table            `json:"tables"`
	Cutovers []Cutover          `json:"cutovers"`    // what is expected of the cutover of each group of tables
	Shared   []cost.Line        `json:"shared_cost"` // costs of all tables together
	Totals   []cost.Total       `json:"totals"`
	Sizing   *cost.Sizing       `json:"sizing"` // null if there is nothing to plan
	Prices   Prices             `json:"prices"`
	Warnings diag.List          `json:"warnings"`
	// Missing holds permissions that are known to be missing; null if there are none.
	Missing *MissingPrivileges `json:"missing_iam"`

	left bool // the application has left the source, so there is nothing to plan
}

// Cutover is what is expected of the cutover of a group of tables.
type Cutover struct {
	Group  string   `json:"group"`
	Tables []string `json:"tables"`
	Freeze float64  `json:"expected_freeze_seconds"`
	// Measured reports that the last attempt took that long. Otherwise it is estimated.
	Measured bool `json:"expected_freeze_measured"`
	// Wait is the expected wait for a moment at which the freeze is short.
	Wait   float64  `json:"expected_wait_seconds"`
	Longer []string `json:"lengthened_by"` // settings that make the freeze longer

	lines []string
}

// Creation is a missing resource that would be created.
type Creation struct {
	Kind string `json:"kind"` // table, family, view, app_profile or change_stream
	Name string `json:"name"`
	// Families are the families of a new table, or the missing family of an existing table.
	Families  []Family `json:"families,omitempty"`
	View      string   `json:"view,omitempty"`  // the view that is created with the table
	Shows     []string `json:"shows,omitempty"` // families of a view
	SplitKeys []string `json:"split_keys,omitempty"`
	Cluster   string   `json:"cluster,omitempty"` // cluster of an app profile
	// Kept is how long a change stream keeps its records, in seconds. A change stream is the only
	// creation that alters an existing table.
	Kept float64 `json:"kept_seconds,omitempty"`
}

type Family struct {
	Name string `json:"name"`
	Keep string `json:"keep"` // the garbage collection rule as cbt writes it
}

// Table is one source table.
type Table struct {
	Source  string `json:"source"`
	Target  string `json:"target"`
	Items   int64  `json:"items"` // DynamoDB's count, up to six hours old
	Bytes   int64  `json:"bytes"`
	Billing string `json:"billing"`
	// Key is the ARN of the KMS key that encrypts the table. It is left out for DynamoDB's own key.
	Key        string         `json:"key,omitempty"`
	OpenShards *int           `json:"open_shards"` // null if the stream could not be listed
	Sampled    int            `json:"sampled"`
	RowKeys    []string       `json:"row_keys"`            // up to ten row keys from the sample
	Unmappable map[string]int `json:"unmappable"`          // number of sampled items that cannot be mapped, by reason
	Unmapped   []string       `json:"unmapped_attributes"` // attributes in the sample that are written to no cell
	Copy       Copy           `json:"copy"`
	// Export is the export that the first load copies. It is null if the load scans the table, or
	// if the export cannot be read.
	Export *Export `json:"export"`
	// DualWrites is null without dual_writes.
	DualWrites *config.DualWay `json:"dual_writes"`
	Cost       []cost.Line     `json:"cost"`
	// MappingChange is the difference between the mapping in the ledger and the configuration's
	// mapping; null if they are equal.
	MappingChange *MappingChange `json:"mapping_change"`
	// NoWayBack lists the reasons why the items could not follow their rows after a cutover, so that
	// no fallback can be kept. It is empty if they could.
	NoWayBack []string `json:"no_way_back"`
	// Losses lists what a fallback would not carry to the items.
	Losses []string `json:"fallback_losses"`
}

// Export is an export that the configuration names.
type Export struct {
	Address string    `json:"address"`
	At      time.Time `json:"at"` // the time for which the export shows the table
	Items   int64     `json:"items"`
	Files   int       `json:"files"`
}

// Copy is the expected first load of a table.
type Copy struct {
	Mode string `json:"mode"` // how rows are written: guarded or fast
	// Guarded explains why the load cannot be fast. It is null if it can be.
	Guarded       *string `json:"guarded_because"`
	RowsPerSecond float64 `json:"rows_per_second"`
	LimitedBy     string  `json:"limited_by"`
	Seconds       float64 `json:"seconds"`
	// Modes are the estimates of all modes that are possible.
	Modes []CopyMode `json:"modes"`
}

// CopyMode is the estimate of a load in one mode.
type CopyMode struct {
	Mode          string  `json:"mode"`
	RowsPerSecond float64 `json:"rows_per_second"`
	LimitedBy     string  `json:"limited_by"`
	Seconds       float64 `json:"seconds"`
	// Nodes is the cost of the additional nodes that this load alone needs.
	Nodes float64 `json:"nodes_cost"`
}

// Prices holds the assumptions of the estimates.
type Prices struct {
	Estimate bool                  `json:"estimate"` // always true
	Date     string                `json:"date"`
	Currency string                `json:"currency"`
	Regions  string                `json:"regions"`
	Prices   map[string]cost.Price `json:"prices"`
	Rates    map[string]float64    `json:"rates"`
}

// MissingPrivileges holds the permissions that an identity lacks, in the form of policy documents
// that grant them.
type MissingPrivileges struct {
	AWS *policy.Policy `json:"aws,omitempty"`
	GCP []string       `json:"gcp,omitempty"`
}
