package cutover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/kit"
)

// A watch looks at the streams each minute, and ten times at least. After a failure it looks again
// sooner, because records may be trimmed meanwhile, but not in each pass.
func TestHowOftenAWatchLooks(t *testing.T) {
	for lasts, want := range map[time.Duration][2]time.Duration{
		24 * time.Hour: {time.Minute, lookAgain}, 5 * time.Minute: {30 * time.Second, lookAgain}, 90 * time.Second: {9 * time.Second, 9 * time.Second},
	} {
		playScene(t, func(s *scene) {
			p := plan()
			p.WatchFor = lasts
			s.start(p)
			s.drive(at(checkpoint.CutoverWatching))
			for i, away := range []error{nil, errors.New("away")} {
				var looks []time.Duration
				s.Source.Fail = func(call string) error {
					if n, now := len(looks), task.Mono(s.Ctx); call == "ListPage" && (n == 0 || now-looks[n-1] > time.Second) {
						looks = append(looks, now)
					}
					if call == "ListPage" {
						return away
					}
					return nil
				}
				s.driveFor(min(3*time.Minute, lasts/2))
				if len(looks) < 3 || looks[2]-looks[1] < want[i] || looks[2]-looks[1] > want[i]+3*time.Second {
					t.Errorf("a watch of %s, failing %t: looks at %s, want one each %s", lasts, away != nil, looks, want[i])
				}
			}
		})
	}
}

// trimmed is a stream that gives no iterator, so often.
type trimmed struct {
	expiring
	times int
}

func (r *trimmed) Seek(ctx context.Context, shard string, at cdc.Position) (cdc.Iterator, error) {
	i, _ := r.expiring.Seek(ctx, shard, at)
	if r.times--; r.times >= 0 {
		return "", &cdc.Error{Op: "GetShardIterator", Reason: cdc.Trimmed}
	}
	return i, nil
}

// Where the records at a position are trimmed, a watch reads what is left, once. If that is trimmed
// as well, it says so.
func TestAWatchReadsWhatIsNotTrimmed(t *testing.T) {
	for times, fails := range map[int]bool{0: false, 1: false, 2: true} {
		e := &trimmed{times: times}
		r := &watchedShard{at: cdc.Position{After: kit.Position(3)}}
		_, err := r.read(t.Context(), e, kit.Shard)
		want := []cdc.Position{{After: kit.Position(3)}, {}}[:min(times+1, 2)]
		if fails != cdc.Is(err, cdc.Trimmed) || !fails && err != nil || !slices.Equal(e.seeks, want) {
			t.Errorf("trimmed %d times: sought at %v, %v", times, e.seeks, err)
		}
	}
}

// There is something to drive while an attempt is under way, and afterwards while canaries are left.
// Once the watch is over the sources are not written any more.
func TestWhatThereIsToDrive(t *testing.T) {
	for step, want := range map[checkpoint.CutoverStep][2]bool{
		"": {false, true}, checkpoint.CutoverDrain: {true, true}, checkpoint.CutoverWatching: {true, true}, checkpoint.CutoverDone: {false, false}, checkpoint.CutoverCancelled: {false, true},
	} {
		for i, canaries := range []bool{false, true} {
			if got := (&Driver{}).needed(checkpoint.Cutover{Step: step, Canaries: canaries}); got != want[i] {
				t.Errorf("step %q, canaries %t: %t", step, canaries, got)
			}
		}
	}
}

// A record names at most so many parked items, of all tables together. With more of them the attempt
// ends before the freeze.
func TestTooManyParkedItemsFreezeNothing(t *testing.T) {
	for extra, step := range map[int]checkpoint.CutoverStep{0: checkpoint.CutoverWatching, 1: checkpoint.CutoverCancelled} {
		playScene(t, func(s *scene) {
			s.driver.Settings.Ready.ParkedAtMost = 2 * mostParked
			for i := range mostParked + extra {
				table := plan().Tables[i%2]
				s.parked[table] = append(s.parked[table], fmt.Sprint("item", i))
			}
			c := s.play(plan())
			if c.Step != step || step == checkpoint.CutoverCancelled && (len(s.calls) > 0 || !strings.Contains(c.Reason, "2001 items are parked")) {
				t.Errorf("%d more than the most: %s because of %q, after %v", extra, c.Step, c.Reason, s.calls)
			}
		})
	}
}

// What the checks leave behind is what the last full verify could not map, and what is parked. A later
// comparison of a part says less.
func TestWhatTheChecksLeaveBehind(t *testing.T) {
	playScene(t, func(s *scene) {
		s.parked["Orders"] = []string{"a", "b"}
		s.Change("Parts", func(state *checkpoint.TableState) { state.Verify.Full.Unmapped, state.Verify.Full.Number = 2, 7 })
		s.Change("Orders", func(state *checkpoint.TableState) { state.Verify.Result.Unmapped = 3 })
		k, err := (&drive{Driver: s.driver}).known(s.Ctx, checkpoint.Cutover{CutoverPlan: plan()})
		if err != nil || k.unmapped["Parts"] != 2 || len(k.unmapped) != 1 || k.parkedItems() != 2 || len(k.parked) != 1 || k.verified["Parts"].Number != 7 {
			t.Errorf("%+v, %v", k, err)
		}
	})
}
