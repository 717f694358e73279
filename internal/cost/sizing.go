package cost

import "math"

const (
	mib = 1 << 20
	// busyShare is the share of their capacity at which processes and nodes are planned. The rest is
	// for peaks, and for the work of a process that has failed.
	busyShare = 0.7
	// coresOfWorker is the largest worker that is planned, in cores. A migration that needs more gets
	// more workers.
	coresOfWorker = 2
	// coreStep and memoryStep are the steps to which the needs of a worker are rounded up.
	coreStep   = 0.25
	memoryStep = 128 * mib
	// shardChanges is the largest number of changes per second of a shard. It is the limit of writes
	// of one partition of a table.
	// Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html
	shardChanges = 1000
)

// Sizing is what a migration needs on both sides.
type Sizing struct {
	Changes  float64 `json:"changes_per_second"` // of all tables
	Measured bool    `json:"measured"`           // by workers; otherwise it is the most that the open shards can give
	Workers  int     `json:"workers"`            // one more than is needed, so that one can fail
	Cores    float64 `json:"cores"`              // of each worker
	Memory   int64   `json:"memory_bytes"`       // of each worker
	Nodes    int     `json:"nodes"`              // of Bigtable, for the changes
	// CopyNodes is the number of nodes that the changes and the copy need together.
	CopyNodes int `json:"copy_nodes"`
	Have      int `json:"cluster_nodes"` // nodes of the cluster; 0 if unknown
}

// Size estimates what a migration needs of workers and nodes. Its arguments are the number of open
// shards of all tables, their changes per second as workers measured them (0 if unknown), and the
// copies that run concurrently.
func (p Prices) Size(shards int, measured float64, copies []Copy, c Cluster) Sizing {
	s := Sizing{Changes: measured, Measured: measured > 0, Have: c.Nodes}
	if !s.Measured {
		s.Changes = float64(shards) * shardChanges
	}
	var rows float64
	for _, copying := range copies {
		if copying.Time > 0 {
			rows += copying.RowsPerSecond / p.speedup(Table{Fast: copying.Fast, Bytes: smallItem, Items: 1})
		}
	}
	work := s.Changes/p.Rates["core_changes"] + rows/p.Rates["core_rows"] + float64(shards)*p.Rates["shard_cores"]
	needed := max(1, math.Ceil(work/(coresOfWorker*busyShare)))
	s.Workers = int(needed) + 1
	s.Cores = max(coreStep, math.Ceil(work/needed/busyShare/coreStep)*coreStep)
	// A shard with less than a change a second holds no images.
	busy := math.Min(float64(shards), s.Changes)
	each := p.Rates["worker_mib"] + (busy*p.Rates["busy_shard_mib"]+float64(shards)*p.Rates["shard_mib"])/needed
	s.Memory = int64(math.Ceil(each*mib/memoryStep)) * memoryStep
	s.Nodes = nodes(s.Changes / p.nodeRows(false, c.HDD))
	s.CopyNodes = nodes(s.Changes/p.nodeRows(false, c.HDD) + p.copyNodes(copies, c))
	return s
}

// nodes rounds a need of nodes up, with the reserve for peaks.
func nodes(need float64) int { return max(1, int(math.Ceil(need/busyShare))) }
