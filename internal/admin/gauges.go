package admin

// Gauge is a metric of a source table. Every process computes its value from the ledger, so all
// processes show the same value. The value is defined as in the columns of the command status.
type Gauge struct{ Name, Help string }

// The gauges of tables.
var (
	GaugeHeadroom = Gauge{"replicator_source_retention_headroom_seconds",
		"Time left until the stream drops unapplied changes. The smallest value of all shards, including shards that other processes read."}
	GaugeLastPoll = Gauge{"replicator_source_last_poll_timestamp_seconds",
		"Time of the last successful read of a shard by any process. The oldest such time of all shards that can be read, or whose children are not listed."}
	GaugeSetAside = Gauge{"replicator_source_set_aside",
		"1 while a table of a pattern cannot be followed, or a named table was dropped. The other tables continue."}
	GaugeParked   = Gauge{"replicator_items_parked", "Items parked until an operator decides."}
	GaugeSettling = Gauge{"replicator_changes_settling",
		"Changes that were applied once and will be written a second time (dual_writes). Counts all shards, including shards that other processes read."}
	GaugeWayBackLag = Gauge{"replicator_wayback_lag_seconds",
		"How far DynamoDB is behind Bigtable after a cutover with a way back."}
	GaugeWayBackLost   = Gauge{"replicator_wayback_lost", "1 while changes are lost on the way back after a cutover, so that no rollback is possible. Otherwise 0."}
	GaugeWayBackParked = Gauge{"replicator_wayback_parked", "Rows that the way back after a cutover cannot carry to DynamoDB."}
)

// Gauges lists all gauges.
var Gauges = []Gauge{GaugeHeadroom, GaugeLastPoll, GaugeSetAside, GaugeParked, GaugeSettling, GaugeWayBackLag, GaugeWayBackLost, GaugeWayBackParked}
