package sim

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// failingCall is one kind of call that fails for everybody while all others work, as one does that a policy forgot, that has a quota of its own, or
// whose answers a proxy spoils: what was begun with the calls before it stands there half done.
type failingCall struct {
	op, table string // the table is that of a call to the target, "" for any
	until     time.Duration
	source    cdc.Reason // how a call to the source fails
	target    sink.Reason
}

func (f *failingCall) strikes(op, table string, now time.Duration) bool {
	return now < f.until && op == f.op && (f.table == "" || f.table == table)
}

// calls are all that the replicator makes; state is whether those to the state table or to a target table are meant.
var calls = []struct {
	op     string
	source bool
	state  bool
}{
	{"DescribeTable", true, false}, {"Scan", true, false}, {"DescribeStream", true, false}, {"GetShardIterator", true, false}, {"GetRecords", true, false},
	{"CheckAndMutateRow", false, false}, {"ReadRows", false, false}, {"Swap", false, false},
	{"MutateRow", false, true}, {"ReadRows", false, true}, {"Swap", false, true},
}

func (s *simulation) failOneCall(e event) {
	c := calls[e.pick%uint64(len(calls))]
	how := e.pick / uint64(len(calls))
	f := failingCall{op: c.op, until: s.World.Elapsed() + s.span(e, 3*time.Hour)}
	if c.source {
		reasons := []cdc.Reason{cdc.Throttled, cdc.Unavailable, cdc.Denied, cdc.Malformed, cdc.Expired}
		f.source = reasons[how%uint64(len(reasons))]
		s.World.Tracef("%s is %s until %s", c.op, f.source, f.until)
	} else {
		tables := s.Mapping.Tables()
		if f.table = tables[how/8%uint64(len(tables))]; c.state {
			f.table = stateTable
		}
		reasons := []sink.Reason{sink.Unknown, sink.Throttled, sink.Denied, sink.Permanent}
		f.target = reasons[how%uint64(len(reasons))]
		s.World.Tracef("%s of %s is %s until %s", c.op, f.table, f.target, f.until)
	}
	s.oneCall = f
	s.healthy = max(s.healthy, f.until)
}
