package standing

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// unknown stands for an unknown duration.
const unknown = time.Duration(-1)

// shown is a shard as a test expects it: durations are before noon.
type shown struct {
	lag, headroom, asked time.Duration // headroom as the age that it leaves
	flags                string        // estimated, old, over, unfollowed, silent, future
}

func show(s Shard) (out shown) {
	out = shown{unknown, unknown, unknown, ""}
	if s.Lag != nil {
		out.lag = *s.Lag
	}
	if s.Headroom != nil {
		out.headroom = cdc.Retention - *s.Headroom
	}
	if !s.askedAt.IsZero() {
		out.asked = noon.Sub(s.askedAt)
	}
	var flags []string
	for _, f := range []struct {
		set  bool
		name string
	}{{s.Estimated, "estimated"}, {s.Old, "old"}, {s.Over, "over"}, {s.Unfollowed, "unfollowed"}, {s.Silent, "silent"}, {s.future, "future"}} {
		if f.set {
			flags = append(flags, f.name)
		}
	}
	out.flags = strings.Join(flags, " ")
	return out
}

// parentOf returns the parent of a shard, which ended at one time and had its last change at
// another.
func parentOf(s *checkpoint.Shard, ended, event time.Duration) checkpoint.Shard {
	s.Parent = "p"
	return checkpoint.Shard{ID: "p", Label: "L", State: checkpoint.Done, DoneAt: ago(ended), EventTime: ago(event), FirstRead: ago(23 * time.Hour), ReadAt: ago(ended)}
}

// never makes a shard one that was never read, and whose row was written a second ago.
func never(s *checkpoint.Shard) {
	*s = checkpoint.Shard{ID: "s", Label: "L", State: checkpoint.Waiting, Heartbeat: checkpoint.Heartbeat{WrittenAt: ago(time.Second)}}
}

// The judgement of one shard: how far it is applied, how near it is to losing changes, when it was
// last read or could have been, and by whose clock. A figure that is too good would put a table in
// sync that is not; one that is too bad would call for a needless load.
func TestHowAShardStands(t *testing.T) {
	const s, m, h = time.Second, time.Minute, time.Hour
	for _, c := range []struct {
		name   string
		change func(f *Facts, sh *checkpoint.Shard)
		want   shown
	}{
		{"found empty", func(*Facts, *checkpoint.Shard) {}, shown{s, s, s, "estimated"}},
		{"behind its last change", func(_ *Facts, sh *checkpoint.Shard) {
			sh.CaughtUp, sh.Position, sh.EventTime, sh.AppliedTo = false, cdc.SequenceOf(9), ago(10*s), ago(20*s)
		}, shown{10 * s, 10 * s, s, ""}},
		{"settling to the tip", func(_ *Facts, sh *checkpoint.Shard) {
			sh.CaughtUp, sh.Position, sh.EventTime, sh.AppliedTo = false, cdc.SequenceOf(9), ago(30*s), ago(30*s)
			sh.Settling = checkpoint.Settling{Changes: 2, EventTime: ago(5 * s), CaughtUp: true}
		}, shown{s, 30 * s, s, "estimated"}},
		{"settling, with more to read", func(_ *Facts, sh *checkpoint.Shard) {
			sh.CaughtUp, sh.Position, sh.EventTime, sh.AppliedTo = false, cdc.SequenceOf(9), ago(30*s), ago(30*s)
			sh.Settling = checkpoint.Settling{Changes: 2, EventTime: ago(5 * s)}
		}, shown{5 * s, 30 * s, s, ""}},
		{"read without a change", func(_ *Facts, sh *checkpoint.Shard) {
			sh.CaughtUp, sh.ReadAt, sh.AppliedTo = false, ago(7*s), time.Time{}
		}, shown{7 * s, h, 7 * s, "estimated"}},
		{"read, without a time of its position", func(_ *Facts, sh *checkpoint.Shard) {
			sh.CaughtUp, sh.ReadAt, sh.AppliedTo, sh.FirstRead = false, ago(7*s), time.Time{}, time.Time{}
		}, shown{7 * s, 7 * s, 7 * s, "estimated"}},
		{"at the tip by what it inherited", func(_ *Facts, sh *checkpoint.Shard) {
			sh.ReadAt, sh.Position, sh.EventTime = time.Time{}, cdc.SequenceOf(9), ago(9*s)
		}, shown{9 * s, 9 * s, s, ""}},
		{"a change of the future", func(_ *Facts, sh *checkpoint.Shard) {
			sh.CaughtUp, sh.Position, sh.EventTime = false, cdc.SequenceOf(9), noon.Add(5*s)
		}, shown{0, 0, -5 * s, ""}},

		{"another stream's", func(_ *Facts, sh *checkpoint.Shard) { sh.Label = "former" }, shown{unknown, unknown, unknown, "over"}},
		{"a declared gap", func(_ *Facts, sh *checkpoint.Shard) { sh.State, sh.Generation = checkpoint.Gap, 6 }, shown{unknown, unknown, unknown, "over"}},
		{"ended, and its child is there", func(f *Facts, sh *checkpoint.Shard) {
			*sh = ended("s", h)
			f.Shards = append(f.Shards, checkpoint.Shard{ID: "c", Parent: "s", Label: "L"})
		}, shown{unknown, unknown, unknown, "over"}},
		{"ended, and its end settles", func(f *Facts, sh *checkpoint.Shard) {
			sh.EndedAt = ago(h)
			f.Shards = append(f.Shards, checkpoint.Shard{ID: "c", Parent: "s", Label: "L"})
		}, shown{unknown, unknown, unknown, "over"}},
		{"ended without a child", func(f *Facts, sh *checkpoint.Shard) {
			*sh = ended("s", h)
			sh.EventTime, f.Listings = ago(3*h), checkpoint.Listings{At: ago(10 * s), Open: map[string]time.Time{"s": ago(90 * m)}}
		}, shown{90*m + checkpoint.Slack, 90*m + checkpoint.Slack, h, "estimated unfollowed"}},

		{"its owner is silent", func(_ *Facts, sh *checkpoint.Shard) {
			sh.WrittenAt, sh.ReadAt, sh.AppliedTo = ago(46*s), ago(46*s), ago(46*s)
		},
			shown{46 * s, 46 * s, 46 * s, "estimated old silent"}},
		{"without an owner", func(_ *Facts, sh *checkpoint.Shard) {
			sh.Owner, sh.WrittenAt, sh.ReadAt, sh.AppliedTo = "", ago(h), ago(h), ago(50*m)
		}, shown{50 * m, 50 * m, 50 * m, "estimated"}},
		{"without an owner, and never shown", func(_ *Facts, sh *checkpoint.Shard) {
			sh.Owner, sh.ReadAt, sh.AppliedTo, sh.FirstRead = "", ago(5*s), time.Time{}, ago(h)
		}, shown{5 * s, h, 5 * s, "estimated"}},
		{"of an owner that never wrote", func(_ *Facts, sh *checkpoint.Shard) { sh.WrittenAt, sh.AppliedTo = time.Time{}, ago(30*s) },
			shown{s, 30 * s, s, "estimated"}},

		{"read by another's clock", func(_ *Facts, sh *checkpoint.Shard) { sh.WrittenAt, sh.AppliedTo = ago(10*s), ago(30*s) },
			shown{30 * s, 30 * s, 30 * s, "estimated"}},
		{"shown later than read", func(_ *Facts, sh *checkpoint.Shard) {
			sh.ReadAt, sh.EventTime, sh.AppliedTo = ago(5*s), ago(2*s), ago(8*s)
		},
			shown{2 * s, 8 * s, 2 * s, "estimated"}},
		{"by a clock that is known to be an hour ahead", func(_ *Facts, sh *checkpoint.Shard) {
			sh.ClockOffset, sh.ReadAt, sh.WrittenAt, sh.AppliedTo = 3600, noon.Add(h-2*s), noon.Add(h-s), ago(9*s)
		}, shown{2 * s, 9 * s, 2 * s, "estimated"}},
		{"by a clock that is ahead, and the service's is fresh", func(_ *Facts, sh *checkpoint.Shard) { sh.ReadAt, sh.WrittenAt = noon.Add(h), noon.Add(h) },
			shown{s, s, s, "estimated"}},
		{"by a clock that is ahead, and the service's is old", func(_ *Facts, sh *checkpoint.Shard) {
			sh.ReadAt, sh.WrittenAt, sh.AppliedTo = noon.Add(h), noon.Add(h), ago(h)
		}, shown{h, h, h, "estimated old future"}},
		{"by a clock that is ahead alone", func(_ *Facts, sh *checkpoint.Shard) {
			sh.ReadAt, sh.WrittenAt, sh.AppliedTo = noon.Add(h), noon.Add(h), time.Time{}
		}, shown{0, h, -h, "estimated future"}},
		{"by two clocks that are ahead", func(_ *Facts, sh *checkpoint.Shard) {
			sh.ReadAt, sh.WrittenAt, sh.AppliedTo = noon.Add(2*h), noon.Add(2*h), noon.Add(h)
		}, shown{0, 0, -2 * h, "estimated future"}},
		{"by a clock that is three leases ahead", func(_ *Facts, sh *checkpoint.Shard) {
			sh.ReadAt, sh.WrittenAt, sh.AppliedTo = noon.Add(3*lease), noon.Add(3*lease), ago(20*s)
		}, shown{0, 20 * s, -3 * lease, "estimated"}},

		{"never read", func(_ *Facts, sh *checkpoint.Shard) { never(sh) }, shown{unknown, unknown, s, ""}},
		{"never read, for reads fail", func(_ *Facts, sh *checkpoint.Shard) {
			never(sh)
			sh.Trouble = checkpoint.Trouble{Step: "read", Since: ago(40 * s)}
		}, shown{unknown, unknown, 40 * s, ""}},
		{"before the stream was listed", func(f *Facts, sh *checkpoint.Shard) { f.Table.Listed, sh.Owner = 0, "" }, shown{s, s, unknown, "estimated"}},
		{"after a parent that was read in time", func(f *Facts, sh *checkpoint.Shard) {
			never(sh)
			f.Shards = append(f.Shards, parentOf(sh, 3*m, 4*m))
		}, shown{3 * m, 3 * m, 3 * m, "estimated"}},
		{"after a parent that was read five minutes late", func(f *Facts, sh *checkpoint.Shard) {
			never(sh)
			f.Shards = append(f.Shards, parentOf(sh, 3*m, 8*m))
		}, shown{3 * m, 3 * m, 3 * m, "estimated"}},
		{"after a parent that was read later", func(f *Facts, sh *checkpoint.Shard) {
			never(sh)
			f.Shards = append(f.Shards, parentOf(sh, 3*m, 8*m+s))
		}, shown{8*m + s + checkpoint.Slack, 8*m + s + checkpoint.Slack, 3 * m, "estimated"}},
		{"after a parent whose end settles", func(f *Facts, sh *checkpoint.Shard) {
			never(sh)
			p := parentOf(sh, 3*m, 4*m)
			p.State, p.DoneAt, p.EndedAt = checkpoint.Reading, time.Time{}, ago(3*m)
			f.Shards = append(f.Shards, p)
		}, shown{3 * m, 3 * m, 3 * m, "estimated"}},
		{"after a parent whose end has no time", func(f *Facts, sh *checkpoint.Shard) {
			never(sh)
			p := parentOf(sh, 0, 4*m)
			p.DoneAt = time.Time{}
			f.Shards = append(f.Shards, p)
		}, shown{unknown, unknown, s, ""}},
	} {
		f := inSync()
		c.change(&f, &f.Shards[0])
		if got := show(Of(f).Shards[0]); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// two returns two shards in both orders.
func two(a, b checkpoint.Shard) (orders [][]checkpoint.Shard) {
	return [][]checkpoint.Shard{{a, b}, {b, a}}
}

// Of two shards, the worse counts, whichever comes first: the one that is further behind, nearer to
// losing changes, unread for longer, or unknown.
func TestTheWorseOfTwoShardsCounts(t *testing.T) {
	near, far := readAgo("near", 10*time.Second), readAgo("far", 30*time.Second)
	far.CaughtUp, far.Position, far.EventTime, far.AppliedTo, far.ReadAt = false, cdc.SequenceOf(9), ago(30*time.Second), ago(30*time.Second), ago(5*time.Second)
	for i, shards := range two(near, far) {
		s := Of(facts(func(f *Facts) { f.Shards = shards }))
		if s.Lag == nil || *s.Lag != 30*time.Second || s.Estimated || s.AtMost || cdc.Retention-*s.Headroom != 30*time.Second || !s.OldestRead.Equal(ago(10*time.Second)) || s.Old {
			t.Errorf("order %d: %+v", i, s.Figures)
		}
	}
	var root checkpoint.Shard
	never(&root)
	root.ID = "r"
	for i, shards := range two(far, root) {
		s := Of(facts(func(f *Facts) { f.Shards = shards }))
		if s.Lag != nil || !s.AtMost || s.Headroom == nil || cdc.Retention-*s.Headroom != 30*time.Second {
			t.Errorf("order %d, one of which nothing is known: %+v", i, s.Figures)
		}
	}
	ahead := reading("ahead")
	ahead.ReadAt, ahead.WrittenAt, ahead.AppliedTo = noon.Add(time.Hour), noon.Add(time.Hour), time.Time{}
	for i, shards := range two(near, ahead) {
		if s := Of(facts(func(f *Facts) { f.Shards = shards })); s.State() != Unknown || s.Conditions[0].Reason != clocksDiffer {
			t.Errorf("order %d, one whose time is unknown: %+v", i, s.Conditions)
		}
	}
	for i, shards := range two(ended("a", time.Hour), ended("b", 2*time.Hour)) {
		if s := Of(facts(func(f *Facts) { f.Shards = shards })); !s.Childless.Equal(ago(2*time.Hour)) || s.Conditions[0].Reason != noChildren || !s.Conditions[0].Since.Equal(ago(2*time.Hour)) {
			t.Errorf("order %d: since %s, %+v", i, s.Childless, s.Conditions)
		}
	}
	for i, shards := range two(readAgo("hour", time.Hour), readAgo("hours", 2*time.Hour)) {
		s := Of(facts(func(f *Facts) { f.Shards = shards }))
		if !s.Old || !s.OldestRead.Equal(ago(2*time.Hour)) || s.State() != Stalled || !s.Conditions[0].Since.Equal(ago(2*time.Hour)) || s.Conditions[1].State == Stalled {
			t.Errorf("order %d: %+v, %+v", i, s.Figures, s.Conditions)
		}
	}
	child := checkpoint.Shard{ID: "c", Parent: "near", Label: "L", State: checkpoint.Waiting}
	if s := Of(facts(func(f *Facts) { f.Shards = []checkpoint.Shard{child, near} })); s.Lag == nil || *s.Lag != 10*time.Second || s.AtMost {
		t.Errorf("a child that waits for its parent counts: %+v", s.Figures)
	}
}

// The judgement of a table beyond its shards: since when it could be read, and whether anything is
// left to read.
func TestFiguresOfATable(t *testing.T) {
	minute := func(at time.Duration) uint32 { return uint32(ago(at).Unix() / 60) }
	gone := func(f *Facts) { f.Table.Suspended = checkpoint.Suspension{Reason: Gone, Since: ago(48 * time.Hour)} }
	for _, c := range []struct {
		name   string
		change func(f *Facts)
		want   string // flags of figures and standing, and since when nothing was read
	}{
		{"in sync", func(*Facts) {}, "[] 1s"},
		{"paused", func(f *Facts) { f.Table.Pause.Since, f.Shards[0] = ago(time.Hour), readAgo("s", time.Hour) }, "[] 1h0m0s"},
		{"not listed for ten minutes", func(f *Facts) { f.Table.Listed, f.Table.Generation, f.Shards = 0, minute(10*time.Minute), nil }, "[unlisted] 9m0s"},
		{"not listed, and begun by a clock that was never set", func(f *Facts) { f.Table.Listed, f.Table.Generation, f.Shards = 0, leastMinutes-1, nil }, "[unlisted] never"},
		{"not listed since 1971", func(f *Facts) { f.Table.Listed, f.Table.Generation, f.Shards = 0, leastMinutes, nil }, "[unlisted] " + noon.Sub(time.Date(1971, 1, 1, 0, 1, 0, 0, time.UTC)).String()},
		{"not listed yet", func(f *Facts) { f.Table.Listed, f.Table.Generation, f.Shards = 0, minute(0), nil }, "[] 0s"},
		{"begun by a clock that is ahead", func(f *Facts) { f.Table.Listed, f.Table.Generation, f.Shards = 0, minute(-time.Hour), nil }, "[] 0s"},
		{"met an hour ago", func(f *Facts) {
			f.Table = checkpoint.TableState{Source: "Orders", Changed: ago(time.Hour)}
			f.Shards = nil
		}, "[unlisted] 1h0m0s"},
		{"not met", func(f *Facts) { f.Table, f.Shards = checkpoint.TableState{Source: "Orders"}, nil }, "[] never"},
		{"suspended before it was listed", func(f *Facts) {
			f.Table.Listed, f.Table.Generation, f.Shards = 0, minute(time.Hour), nil
			f.Table.Suspended.Reason = "no stream"
		}, "[] never"},
		{"its stream ended before it was listed", func(f *Facts) {
			f.Table.Listed, f.Table.Generation, f.Shards, f.Table.StreamEnded = 0, minute(time.Hour), nil, true
		}, "[] never"},
		{"dropped, and something is left", func(f *Facts) { gone(f); f.Table.Suspended.Since = ago(time.Hour) }, "[dropped] 1s"},
		{"dropped, and nothing is left", func(f *Facts) {
			gone(f)
			f.Table.Suspended.Since, f.Named, f.Shards = ago(time.Hour), false, []checkpoint.Shard{ended("s", time.Hour)}
		}, "[dropped drained] never"},
		{"dropped long ago", func(f *Facts) { gone(f); f.Shards[0] = readAgo("s", time.Hour) }, "[dropped drained long gone] never"},
		{"dropped long ago, and not read to the tip", func(f *Facts) { gone(f); f.Shards[0].CaughtUp = false }, "[dropped] 1s"},
		{"dropped long ago, and not read since", func(f *Facts) {
			gone(f)
			f.Shards[0] = readAgo("s", 48*time.Hour)
		}, "[dropped old] 48h0m0s"},
		{"dropped long ago, and a former stream was not read", func(f *Facts) {
			gone(f)
			f.Shards[0].Label, f.Shards[0].CaughtUp = "former", false
		}, "[dropped drained long gone] never"},
		{"dropped long ago, and nobody listed the children", func(f *Facts) {
			gone(f)
			f.Shards, f.Listings.At = []checkpoint.Shard{ended("s", 48*time.Hour)}, ago(48*time.Hour-time.Minute)
		}, "[dropped old] 48h0m0s"},
		{"switched", step(checkpoint.CutoverWatching), "[drained] never"},
	} {
		s := Of(facts(c.change))
		var flags []string
		for _, f := range []struct {
			set  bool
			name string
		}{{s.Dropped, "dropped"}, {s.Drained, "drained"}, {s.LongGone, "long gone"}, {s.Old, "old"}, {s.Unlisted, "unlisted"}} {
			if f.set {
				flags = append(flags, f.name)
			}
		}
		since := "never"
		if !s.OldestRead.IsZero() {
			since = noon.Sub(s.OldestRead).String()
		}
		if got := fmt.Sprint(flags, " ", since); got != c.want {
			t.Errorf("%s: %s, want %s; %+v", c.name, got, c.want, s.Conditions)
		}
	}
}

// The last shards of a dropped table end with it and have no children. For a named table they are
// reported until a listing proves that: one from five minutes after the end, or from ten after the
// drop.
func TestTheChildrenOfADroppedTable(t *testing.T) {
	const m = time.Minute
	for _, c := range []struct {
		name                 string
		named                bool
		end, listed, dropped time.Duration // how long ago
		missed               bool
	}{
		{"listed a minute after the end", true, 60 * m, 59 * m, 60 * m, true},
		{"listed five minutes after it", true, 60 * m, 55 * m, 60 * m, false},
		{"listed almost so", true, 60 * m, 55*m + 1, 60 * m, true},
		{"ended ten minutes ago", true, 10 * m, 10 * m, 12 * m, false},
		{"ended before that", true, 10*m + 1, 10 * m, 12 * m, true},
		{"read late to its end, and listed ten minutes after the drop", true, 51 * m, 50 * m, 60 * m, false},
		{"listed almost so late", true, 51 * m, 50*m + 1, 60 * m, true},
		{"of a pattern", false, 60 * m, 59 * m, 60 * m, false},
	} {
		s := Of(facts(func(f *Facts) {
			f.Named, f.Table.Suspended = c.named, checkpoint.Suspension{Reason: Gone, Since: ago(c.dropped)}
			f.Shards, f.Listings.At = []checkpoint.Shard{ended("e", c.end)}, ago(c.listed)
		}))
		if missed := s.Shards[0].Unfollowed; missed != c.missed || missed == s.Shards[0].Over {
			t.Errorf("%s: children are missed: %t", c.name, missed)
		}
	}
	s := Of(facts(func(f *Facts) {
		f.Table.Suspended = checkpoint.Suspension{Reason: "no stream", Since: ago(time.Hour)}
		f.Shards = []checkpoint.Shard{ended("e", time.Hour)}
	}))
	if s.Shards[0].Unfollowed {
		t.Error("children are missed of a table that waits for something else")
	}
}

// Published messages that are not known to be applied are at most as old as the last one that is.
// If none is, they are as old as the generation, and the lag is unknown.
func TestFiguresOfATopic(t *testing.T) {
	published := func(id string, n uint64) checkpoint.Shard {
		s := reading(id)
		s.Apply, s.Applied, s.Generation = checkpoint.Topic, n, 7
		return s
	}
	merged := func(id string, to uint64, at time.Duration) checkpoint.Applied {
		return checkpoint.Applied{Track: checkpoint.Track{Generation: 7, Label: "L", Shard: id}, Runs: checkpoint.Runs{{From: 1, To: to, At: ago(at)}}}
	}
	for _, c := range []struct {
		name             string
		merged           []checkpoint.Applied
		behind           uint64
		topicLag, lag    time.Duration
		estimated, known bool
	}{
		{"all are applied", []checkpoint.Applied{merged("a", 5, time.Minute), merged("b", 8, time.Hour)}, 0, 0, time.Second, true, true},
		{"of both some are left", []checkpoint.Applied{merged("a", 4, 2*time.Minute), merged("b", 6, time.Minute)}, 3, 2 * time.Minute, 2 * time.Minute, false, true},
		{"the other way round", []checkpoint.Applied{merged("a", 4, time.Minute), merged("b", 6, 2*time.Minute)}, 3, 2 * time.Minute, 2 * time.Minute, false, true},
		{"just now", []checkpoint.Applied{merged("a", 4, time.Second/2), merged("b", 8, time.Hour)}, 1, time.Second / 2, time.Second, true, true},
		{"of one nothing is applied", []checkpoint.Applied{merged("b", 6, time.Minute)}, 7, time.Hour, 0, true, false},
	} {
		s := Of(facts(func(f *Facts) {
			f.Table.Apply, f.Table.AdoptedAt = checkpoint.Topic, ago(time.Hour)
			f.Shards, f.Merged = []checkpoint.Shard{published("a", 5), published("b", 8)}, c.merged
		}))
		if s.Behind == nil || *s.Behind != c.behind || *s.TopicLag != c.topicLag || (s.Lag != nil) != c.known || s.Lag != nil && (*s.Lag != c.lag || s.Estimated != c.estimated) {
			t.Errorf("%s: %d behind for %s, lag %v, estimated %t", c.name, *s.Behind, *s.TopicLag, s.Lag, s.Estimated)
		}
	}
	if s := Of(facts(func(f *Facts) { f.Shards = []checkpoint.Shard{published("a", 5)} })); s.Behind != nil {
		t.Error("messages are missed of a table that is not applied from a topic")
	}
}

// All conditions that apply are listed, and no other, because commands and alerts wait for each of
// them.
func TestWhichConditionsHold(t *testing.T) {
	cut := func(step checkpoint.CutoverStep, tables ...string) func(f *Facts) {
		return func(f *Facts) {
			f.Cutover = checkpoint.Cutover{Attempt: 1, Step: step, CutoverPlan: checkpoint.CutoverPlan{Tables: tables}}
		}
	}
	for _, c := range []struct {
		name   string
		change func(f *Facts)
		want   []string
	}{
		{"a cutover of all tables", func(f *Facts) { cut(checkpoint.CutoverDrain)(f); f.Cutover.FreezeBegunAt = ago(time.Minute) }, []string{"cutover/drain"}},
		{"switching, without a time of the freeze", cut(checkpoint.CutoverSwitching, "Orders"), []string{"cutover/switching"}},
		{"before the freeze", cut(checkpoint.CutoverChecks, "Orders"), []string{"in_sync/"}},
		{"another table is cut over", cut(checkpoint.CutoverDone, "Parts"), []string{"in_sync/"}},
		{"a dead letter of a former topic", func(f *Facts) { f.DeadLetter = checkpoint.DeadLetter{Messages: 1, Since: ago(time.Hour)} }, []string{"in_sync/"}},
		{"paused, and so unread", func(f *Facts) { f.Table.Pause.Since, f.Shards[0] = ago(time.Hour), readAgo("s", time.Hour) }, []string{"paused/operator", "catching_up/lag"}},
		{"long gone", func(f *Facts) {
			f.Table.Suspended, f.Shards[0] = checkpoint.Suspension{Reason: Gone, Since: ago(48 * time.Hour)}, readAgo("s", 47*time.Hour)
			trouble(time.Hour, false, 0)(f)
		}, []string{"stalled/dropped"}},
		{"not met, while its coordinator is in trouble", func(f *Facts) {
			f.Table, f.Shards = checkpoint.TableState{Source: "Orders"}, nil
			trouble(time.Hour, false, 0)(f)
		}, []string{"preparing/not_started"}},
		{"unread for two reasons, the longer one first", func(f *Facts) {
			f.Shards = []checkpoint.Shard{readAgo("a", time.Hour), readAgo("b", 2*time.Hour)}
			f.Shards[1].Owner = ""
		}, []string{"stalled/no_worker", "stalled/not_read", "catching_up/lag"}},
		{"the other way round", func(f *Facts) {
			f.Shards = []checkpoint.Shard{readAgo("a", 2*time.Hour), readAgo("b", time.Hour)}
			f.Shards[1].Owner = ""
		}, []string{"stalled/not_read", "stalled/no_worker", "catching_up/lag"}},
		{"clocks differ, and so nothing is unread", func(f *Facts) {
			f.Shards[0].ReadAt, f.Shards[0].WrittenAt, f.Shards[0].AppliedTo = noon.Add(time.Hour), noon.Add(time.Hour), ago(time.Hour)
		}, []string{"unknown/clocks_differ", "catching_up/lag"}},
		{"no shard, and nobody", func(f *Facts) { f.Shards, f.Coordinator = nil, checkpoint.Heartbeat{} }, []string{"stalled/no_worker"}},
		{"no shard, and a coordinator", func(f *Facts) { f.Shards = nil }, []string{"in_sync/"}},
		{"no shard of a stream that ended", func(f *Facts) { f.Shards, f.Coordinator, f.Table.StreamEnded = nil, checkpoint.Heartbeat{}, true }, []string{"stalled/stream_ended"}},
		{"no shard of a table that was dropped", func(f *Facts) {
			f.Shards, f.Coordinator = nil, checkpoint.Heartbeat{}
			f.Table.Suspended = checkpoint.Suspension{Reason: Gone, Since: ago(time.Hour)}
		}, []string{"stalled/dropped"}},
		{"being listed, with a load asked for", func(f *Facts) {
			f.Table.Listed, f.Shards, f.Table.Generation, f.Table.Adopted = 0, nil, uint32(noon.Unix()/60), 0
			f.Table.Base, f.Table.Load = 0, checkpoint.Load{AskedAt: ago(time.Minute)}
		}, []string{"preparing/"}},
		{"suspended before it was listed", func(f *Facts) {
			f.Table.Listed, f.Shards, f.Table.Suspended = 0, nil, checkpoint.Suspension{Reason: "no stream", Since: ago(time.Minute)}
			f.Table.Base, f.Table.Load = 0, checkpoint.Load{AskedAt: ago(time.Minute)}
		}, []string{"stalled/suspended", "copying/asked"}},
		{"copying after an export that was refused", func(f *Facts) {
			load(copying(""))(f)
			f.Table.Load.Request = checkpoint.ExportRequest{To: "s3://b", Failed: "denied"}
		}, []string{"copying/"}},
		{"a gap, and no load", func(f *Facts) {
			f.Table.NeedsLoad, f.Table.Kind, f.Table.Base, f.Table.Load = true, checkpoint.KindStream, 6, checkpoint.Load{}
		}, []string{"needs_load/" + string(checkpoint.KindStream)}},
	} {
		var got []string
		for _, o := range Of(facts(c.change)).Conditions {
			got = append(got, string(o.State)+"/"+string(o.Reason))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A condition names a number or a shard if known.
func TestDetailsOfConditions(t *testing.T) {
	for want, change := range map[string]func(f *Facts){
		": 3":       func(f *Facts) { f.Parked = 3 },
		": shard b": func(f *Facts) { f.Shards = []checkpoint.Shard{readAgo("b", time.Hour)} },
	} {
		if s := Of(facts(change)); !strings.HasSuffix(s.Conditions[0].Text(), want) {
			t.Errorf("%q lacks %q", s.Conditions[0].Text(), want)
		}
	}
}

// A load is needed if the record says so, or if a gap is not in the record yet.
func TestWhatNeedsALoad(t *testing.T) {
	lost := checkpoint.Shard{ID: "lost", Label: "L", State: checkpoint.Gap, Reason: "trimmed", Generation: 7}
	for name, c := range map[string]struct {
		change func(f *Facts)
		why    string
		gaps   int
	}{
		"nothing":    {func(*Facts) {}, "", 0},
		"the record": {func(f *Facts) { f.Table.NeedsLoad, f.Table.Reason = true, "a gap" }, "a gap", 0},
		"a shard":    {func(f *Facts) { f.Shards = append(f.Shards, lost) }, "trimmed", 1},
		"both":       {func(f *Facts) { f.Table.NeedsLoad, f.Table.Reason, f.Shards = true, "a gap", append(f.Shards, lost) }, "trimmed", 1},
	} {
		if s := Of(facts(c.change)); s.LoadNeeded != (c.why != "") || s.LoadReason != c.why || len(s.Undeclared) != c.gaps {
			t.Errorf("%s: %t, %q, %+v", name, s.LoadNeeded, s.LoadReason, s.Undeclared)
		}
	}
}
