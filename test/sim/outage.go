package sim

import (
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// Outages of about a day, and what has happened just before them.

// endStream disables the stream. In half of the cases no worker runs until its last record is
// dropped. Sometimes the table gets a new stream hours later.
func (s *simulation) endStream(e event) {
	if s.Source.Stream().Ended {
		return
	}
	s.World.Inject("stream disabled")
	s.Source.DisableStream()
	if e.pick%2 > 0 || s.TombstoneAge > 0 {
		return
	}
	s.World.Inject("stream disabled while nobody runs")
	s.allDown(e, cdc.Retention+s.span(e, 4*time.Hour))
	if e.pick%4 == 0 {
		s.later(cdc.Retention+6*time.Hour, func() {
			if s.Source.Stream().Ended {
				s.World.Inject("stream enabled again long after")
				s.newStream(e)
			}
		})
	}
}

// outForADay stops every worker for about the stream's retention. In half of the cases all shards
// have just been rolled, so that the first records of unread shards are trimmed, and the horizon
// gives no error (H75). Listings may not show the new shards for hours.
func (s *simulation) outForADay(e event) {
	if s.TombstoneAge > 0 {
		return // later reads would be older than tombstones
	}
	delay := time.Second
	if e.pick%4 > 1 {
		delay += time.Duration(float64(s.plan.list+s.plan.pass+2*s.plan.poll) * 2 * e.long)
		rolled := s.Source.Stream().Open()
		for _, sh := range rolled {
			s.Source.Stream().Roll(sh)
		}
		if stale := time.Duration(e.pick>>40%4) * time.Hour; stale > 0 {
			s.showStale(rolled, s.World.Now().Add(stale))
			delay = stale
		}
	}
	part := float64(e.pick%1000) / 1000
	if e.pick%3 > 0 {
		s.later(delay, func() { s.allDown(e, 22*time.Hour+time.Duration(part*float64(10*time.Hour))) })
		return
	}
	// The workers return in time for the shards that they were reading, and stop again before their
	// children are read.
	first := 22*time.Hour + 30*time.Minute + time.Duration(part*float64(80*time.Minute))
	back := delay + first + time.Duration(e.long*float64(4*(s.plan.lease+s.plan.pass+s.plan.list)))
	s.later(delay, func() { s.allDown(e, first) })
	s.later(back, func() { s.allDown(e, 3*time.Hour) })
}

// showStale makes listings show rolled shards in their earlier state, without their children. If
// such a shard is not read to its end soon, nothing else shows that it is closed. Listings have no
// maximum delay, so the shard is shown correctly after checkpoint.Slack.
func (s *simulation) showStale(rolled []*model.Shard, until time.Time) {
	s.World.Inject("shards rolled behind stale listings")
	show := func(sh *model.Shard, until time.Time) {
		sh.ShownOpenUntil = until
		for _, child := range s.Source.Stream().Shards {
			if child.Parent == sh.ID {
				// The middle of a lineage is not omitted.
				child.ListedFrom = later(until, sh.ListedFrom)
			}
		}
	}
	for _, sh := range rolled {
		show(sh, until)
	}
	s.later(checkpoint.Slack-time.Minute, func() {
		rows := s.Shards()
		for _, sh := range rolled {
			if !slices.ContainsFunc(rows, func(row checkpoint.Shard) bool {
				return row.ID == sh.ID && row.Label == sh.Label && row.State == checkpoint.Done
			}) {
				show(sh, s.World.Now())
			}
		}
	})
}

// failingCall is one kind of call that fails for all workers while all others succeed, for example
// because a policy omits it, it has its own quota, or a proxy corrupts its answers. Work that the
// calls before it began stays half done.
type failingCall struct {
	op, table string // table is for calls to the target, "" for any
	until     time.Duration
	source    cdc.Reason // the failure of a call to the source
	target    sink.Reason
}

func (f *failingCall) strikes(op, table string, now time.Duration) bool {
	return now < f.until && op == f.op && (f.table == "" || f.table == table)
}

// calls lists all calls of replicator. state says whether calls to the state table or to a target
// table are meant.
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
			f.table = model.StateTable
		}
		reasons := []sink.Reason{sink.Unknown, sink.Throttled, sink.Denied, sink.Permanent}
		f.target = reasons[how%uint64(len(reasons))]
		s.World.Tracef("%s of %s is %s until %s", c.op, f.table, f.target, f.until)
	}
	s.oneCall = f
	s.healthy = max(s.healthy, f.until)
}
