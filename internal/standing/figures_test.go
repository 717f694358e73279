package standing

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

func TestVerified(t *testing.T) {
	result := func(ended time.Duration, generation uint32, missing int64) checkpoint.VerifyResult {
		return checkpoint.VerifyResult{EndedAt: ago(ended), Generation: generation, VerifyCounts: checkpoint.VerifyCounts{Missing: missing}}
	}
	for _, c := range []struct {
		name           string
		result         checkpoint.VerifyResult
		sampled        int
		full, verified bool
	}{
		{"clean", result(time.Hour, 7, 0), 0, true, true},
		{"never", checkpoint.VerifyResult{}, 0, false, false},
		{"a row is missing", result(time.Hour, 7, 1), 0, false, false},
		{"a day ago", result(checkpoint.VerifyStaleAfter, 7, 0), 0, true, false},
		{"before that", result(checkpoint.VerifyStaleAfter+1, 7, 0), 0, false, false},
		{"within the time", result(2*time.Hour, 7, 0), 0, true, true},
		{"not within the time", result(2*time.Hour+1, 7, 0), 0, true, false},
		{"of another generation", result(time.Hour, 6, 0), 0, false, false},
		{"a sample differs", result(time.Hour, 7, 0), 1, true, false},
	} {
		s := checkpoint.TableState{Generation: 7}
		s.Verify.Result, s.Verify.Full, s.Sampled.Differing = c.result, c.result, c.sampled
		if full, verified := VerifiedInFull(s, noon), Verified(s, 2*time.Hour, noon); full != c.full || verified != c.verified {
			t.Errorf("%s: in full %t, verified %t", c.name, full, verified)
		}
		if c.sampled == 0 && Verified(s, 0, noon) != (c.verified || c.result.Clean() && c.result.Generation == 7) {
			t.Errorf("%s: at any time", c.name)
		}
	}
}

// The shard nearest to losing changes determines the headroom, and the one that is applied least
// far determines AppliedTo.
func TestHeadroomAndAppliedTo(t *testing.T) {
	table := checkpoint.TableState{Label: "L"}
	near, far, unread, waiting := readAgo("near", time.Minute), readAgo("far", time.Hour), checkpoint.Shard{Label: "L", State: checkpoint.Reading}, readAgo("w", time.Minute)
	near.FirstRead, far.FirstRead, waiting.FirstRead = ago(100*time.Hour), ago(100*time.Hour), ago(100*time.Hour)
	waiting.State = checkpoint.Waiting
	done, other := far, far
	done.State, other.Label, done.AppliedTo = checkpoint.Done, "older", ago(5*time.Hour)
	child := near
	child.Parent = done.ID
	for _, c := range []struct {
		name   string
		shards []checkpoint.Shard
		least  time.Duration
		known  int
		to     time.Time
	}{
		{"none", nil, 0, 0, time.Time{}},
		{"two", []checkpoint.Shard{near, far}, cdc.Retention - time.Hour, 2, ago(time.Hour)},
		{"the other way round", []checkpoint.Shard{far, near}, cdc.Retention - time.Hour, 2, ago(time.Hour)},
		{"one is done, and one of another stream", []checkpoint.Shard{child, done, other}, cdc.Retention - time.Minute, 1, ago(time.Minute)},
		{"one was not read", []checkpoint.Shard{near, unread}, cdc.Retention - time.Minute, 1, time.Time{}},
		{"one waits", []checkpoint.Shard{near, waiting}, cdc.Retention - time.Minute, 2, time.Time{}},
	} {
		least, known := Headroom(Open(table, c.shards), noon)
		if to := AppliedTo(table, c.shards, checkpoint.Listings{}); least != c.least || known != c.known || !to.Equal(c.to) {
			t.Errorf("%s: %s of %d, applied to %s", c.name, least, known, to)
		}
	}
	if _, known := Headroom(Open(table, []checkpoint.Shard{near}), time.Time{}); known != 0 {
		t.Error("the service's time is unknown, and the headroom is not")
	}
}

// If a shard's children are not listed yet, nothing after its close counts as applied, however far
// other shards are read. The close is known from its last change, or from a listing that showed it
// open.
func TestAppliedToEndsWhereChildrenAreNotListed(t *testing.T) {
	table := checkpoint.TableState{Label: "L"}
	other, done, child := readAgo("o", time.Second), readAgo("d", time.Minute), reading("c")
	done.State, done.DoneAt, done.EventTime, child.Parent = checkpoint.Done, ago(2*time.Minute), ago(time.Hour), "d"
	settling := done
	settling.State, settling.DoneAt, settling.EndedAt, settling.AppliedTo = checkpoint.Reading, time.Time{}, ago(2*time.Minute), ago(time.Minute)
	waiting, old, ended := child, done, table
	waiting.State, old.DoneAt, ended.StreamEnded = checkpoint.Waiting, ago(26*time.Hour), true
	shown := checkpoint.Listings{At: ago(time.Minute), Open: map[string]time.Time{"d": ago(10 * time.Minute)}}
	for _, c := range []struct {
		name     string
		table    checkpoint.TableState
		shards   []checkpoint.Shard
		listings checkpoint.Listings
		to       time.Time
	}{
		{"its last change", table, []checkpoint.Shard{done, other}, checkpoint.Listings{}, ago(time.Hour + checkpoint.Slack)},
		{"the other way round", table, []checkpoint.Shard{other, done}, checkpoint.Listings{}, ago(time.Hour + checkpoint.Slack)},
		{"a listing showed it open", table, []checkpoint.Shard{done, other}, shown, ago(10*time.Minute + checkpoint.Slack)},
		{"it settles", table, []checkpoint.Shard{settling, other}, shown, ago(10*time.Minute + checkpoint.Slack)},
		{"its child is read", table, []checkpoint.Shard{done, other, child}, shown, ago(time.Second)},
		{"its child waits", table, []checkpoint.Shard{done, other, waiting}, shown, time.Time{}},
		{"a listing of a day later", table, []checkpoint.Shard{old, other}, shown, ago(time.Second)},
		{"the stream ended", ended, []checkpoint.Shard{done, other}, shown, ago(time.Second)},
	} {
		if to := AppliedTo(c.table, c.shards, c.listings); !to.Equal(c.to) {
			t.Errorf("%s: applied to %s ago, wanted %s ago", c.name, noon.Sub(to), noon.Sub(c.to))
		}
	}
}

func TestLoadOf(t *testing.T) {
	for _, c := range []struct {
		name  string
		state checkpoint.TableState
		again bool
		want  Load
	}{
		{"not begun", checkpoint.TableState{}, false, Load{State: LoadNotStarted}},
		{"swept in a version that had no parts", checkpoint.TableState{Generation: 7, Base: 7}, false, Load{State: LoadNotStarted, Over: true}},
		{"the first, into a target of ours", checkpoint.TableState{Generation: 7, MadeByUs: true, Load: checkpoint.Load{AskedAt: noon}}, false,
			Load{State: LoadAsked, UnderWay: true, FirstIntoOwn: true}},
		{"over", checkpoint.TableState{Generation: 7, Base: 7, Load: checkpoint.Load{Generation: 7, Parts: 1, DoneAt: noon}}, false, Load{State: LoadDone, Over: true}},
		{"over, and rows are left", checkpoint.TableState{Generation: 7, NeedsLoad: true, Reason: "left", Load: checkpoint.Load{Generation: 7, Parts: 1, DoneAt: noon, SweptAt: noon}}, true,
			Load{State: LoadDone, Needed: true, Waits: "left", Leads: list}},
		{"a gap", checkpoint.TableState{Generation: 7, Base: 6, NeedsLoad: true}, false, Load{State: LoadNotStarted, Needed: true, Waits: "on_gap: wait", Leads: repairGap}},
		{"a gap after which it begins by itself", checkpoint.TableState{Generation: 7, Base: 6, NeedsLoad: true}, true, Load{State: LoadNotStarted, Needed: true}},
		{"a load of an older generation", checkpoint.TableState{Generation: 7, Base: 6}, false, Load{State: LoadNotStarted}},
		{"the second, into a target of ours", checkpoint.TableState{Generation: 7, Base: 6, MadeByUs: true}, false, Load{State: LoadNotStarted}},
		{"a gap before the first load into a target of ours", checkpoint.TableState{Generation: 7, MadeByUs: true, NeedsLoad: true}, true, Load{State: LoadNotStarted, Needed: true}},
		{"the first is copied, into a target of ours", checkpoint.TableState{Generation: 7, MadeByUs: true, Load: checkpoint.Load{Generation: 7, Parts: 1, StartedAt: noon}}, false,
			Load{State: LoadCopying, UnderWay: true, FirstIntoOwn: true}},
		{"it is copied once more, as an operator wants", checkpoint.TableState{Generation: 7, Base: 7, Load: checkpoint.Load{Generation: 7, Parts: 1, StartedAt: noon}}, false,
			Load{State: LoadCopying, UnderWay: true}},
		{"a gap, and its load is copied", checkpoint.TableState{Generation: 7, Base: 6, NeedsLoad: true, Load: checkpoint.Load{Generation: 7, Parts: 1, StartedAt: noon}}, false,
			Load{State: LoadCopying, Needed: true, UnderWay: true}},
		{"a gap, and its load is swept", checkpoint.TableState{Generation: 7, Base: 6, NeedsLoad: true, Load: checkpoint.Load{Generation: 7, Parts: 1, DoneAt: noon}}, false,
			Load{State: LoadSweeping, Needed: true, UnderWay: true}},
	} {
		if got := LoadOf(c.state, c.again); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	if !Lost(checkpoint.TableState{NeedsLoad: true}) || Lost(checkpoint.TableState{}) {
		t.Error("lost is what the record says")
	}
}

// For a shard that was never read, its parent shows how far it is applied.
func TestWhatAParentSays(t *testing.T) {
	child := checkpoint.Shard{ID: "c", Parent: "p", Label: "L", State: checkpoint.Waiting}
	parent := func(state checkpoint.State, change func(s *checkpoint.Shard)) checkpoint.Shard {
		s := checkpoint.Shard{ID: "p", Label: "L", State: state, FirstRead: ago(23 * time.Hour), ReadAt: ago(time.Minute)}
		change(&s)
		return s
	}
	nothing := func(*checkpoint.Shard) {}
	for _, c := range []struct {
		name    string
		parent  checkpoint.Shard
		lag     time.Duration // negative: unknown
		blocked bool
		waits   bool // nothing of the child could be read yet
	}{
		{"read to its end as it was written", parent(checkpoint.Done, func(s *checkpoint.Shard) { s.DoneAt, s.EventTime = ago(time.Minute), ago(2*time.Minute) }), time.Minute, false, false},
		{"read to its end hours after it was closed", parent(checkpoint.Done, func(s *checkpoint.Shard) { s.DoneAt, s.EventTime = ago(time.Minute), ago(20*time.Hour) }), 20*time.Hour + checkpoint.Slack, false, false},
		{"being read", parent(checkpoint.Reading, nothing), -1, true, true},
		{"a trimmed gap, which is read on first", parent(checkpoint.Gap, func(s *checkpoint.Shard) { s.Loss, s.DoneAt = checkpoint.Trimmed, ago(time.Minute) }), -1, true, true},
		{"a gap that cannot be read on", parent(checkpoint.Gap, func(s *checkpoint.Shard) { s.Loss, s.DoneAt = checkpoint.NotFound, ago(time.Minute) }), time.Minute, false, false},
	} {
		f := inSync()
		f.Shards = []checkpoint.Shard{c.parent, child}
		s := Of(f).Shards[1]
		if (s.Lag == nil) != (c.lag < 0) || s.Lag != nil && *s.Lag != c.lag || (s.Blocked != nil) != c.blocked || s.askedAt.IsZero() != c.waits {
			t.Errorf("%s: lag %v, blocked by %v, could be read since %s", c.name, s.Lag, s.Blocked, s.askedAt)
		}
	}
}
