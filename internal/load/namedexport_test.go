package load

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// named makes the configuration name an export of the shop, with answer as its judgement.
func (s *loadScene) named(ctx context.Context, answer func() error) (judged *int) {
	s.Helper()
	_, e := s.archived(ctx, 12, task.Now(ctx))
	judged = new(int)
	s.Reset()
	s.From = source.Named{Address: "/exports/1", Judge: func(context.Context, checkpoint.TableState, []checkpoint.Shard) (checkpoint.Export, error) {
		*judged++
		return checkpoint.Export{Address: "/exports/1", ARN: e.ARN, At: e.At}, answer()
	}}
	s.change(ctx, func(state *checkpoint.TableState) { state.MadeByUs = true })
	return judged
}

// TestTheFirstLoadCopiesTheExportOfTheConfiguration: it does so once the export may be applied.
// Until then the table's record says so, nothing is scanned instead, and the export is judged again
// each minute.
func TestTheFirstLoadCopiesTheExportOfTheConfiguration(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		var answer error = &checkpoint.NotAdmissible{Reason: "not known", Yet: true}
		judged := s.named(ctx, func() error { return answer })
		// Waiting is no failure.
		s.Events.Retry = func(_, step string, _ time.Duration, err error) { t.Errorf("%s: %v", step, err) }
		s.check(s.work(ctx, 30*time.Second, true))
		if state := s.state(ctx); state.Stage() != checkpoint.StageNone || *judged == 0 {
			t.Errorf("before anything is known, after %d looks: %+v", *judged, state.Load)
		}
		answer = &source.Refused{Why: "it has a filter"}
		*judged = 0
		s.check(s.work(ctx, 10*time.Minute, true))
		state := s.state(ctx)
		if r := state.Load.Request; state.Stage() != checkpoint.StageAsked || !r.Refused() || r.To != "/exports/1" || r.Failed != "it has a filter" {
			t.Errorf("refused: %+v", state.Load)
		}
		if *judged < 8 || *judged > 12 || s.Spec.Loading(state) {
			t.Errorf("judged %d times in ten minutes; a load is waited for: %v", *judged, s.Spec.Loading(state))
		}
		answer = nil
		s.check(s.work(ctx, 10*time.Minute, true))
		if state := s.state(ctx); !state.Loaded() || state.Load.Source != "export" || state.Load.Items != 12 || len(s.live(ctx)) != 12 {
			t.Errorf("%+v, %d rows", state.Load, len(s.live(ctx)))
		}
		if s.shop.reads != 0 {
			t.Errorf("the source was scanned %d times", s.shop.reads)
		}
	})
}

// TestALaterLoadIsNotOfTheExportOfTheConfiguration: the export shows none of the later losses.
func TestALaterLoadIsNotOfTheExportOfTheConfiguration(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		judged := s.named(ctx, func() error { return nil })
		s.LoadAgain = true
		s.change(ctx, func(state *checkpoint.TableState) {
			state.Base, state.GapCount, state.NeedsLoad, state.AdoptedAt = 1, 1, true, task.Now(ctx)
		})
		s.check(s.work(ctx, 10*time.Minute, true))
		if state := s.state(ctx); *judged != 0 || state.Load.Source != "scan" || s.shop.reads == 0 {
			t.Errorf("judged %d times, %d reads: %+v", *judged, s.shop.reads, state.Load)
		}
	})
}

// TestAProcessThatBeginsJudgesAnew: a new process judges the export again, unless it copies
// nothing. An operator's request stays.
func TestAProcessThatBeginsJudgesAnew(t *testing.T) {
	for name, c := range map[string]struct {
		copies bool
		want   checkpoint.Stage
	}{"it copies": {true, checkpoint.StageNone}, "it only follows": {false, checkpoint.StageAsked}} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.Copy = c.copies
			_, err := s.Ledger.RefuseExport(ctx, "Orders", "/exports/1", "it has a filter")
			s.check(err)
			s.check(s.Table().SameSource(ctx))
			if got := s.state(ctx).Stage(); got != c.want {
				t.Errorf("%s: %s", name, got)
			}
			_, err = s.Ledger.RequestExport(ctx, "Orders", true, checkpoint.ExportRequest{To: "s3://bucket"})
			s.check(err)
			s.Reset()
			s.check(s.Table().SameSource(ctx))
			if state := s.state(ctx); state.Stage() != checkpoint.StageAsked || !state.Load.Request.Wanted() {
				t.Errorf("%s: %+v", name, state.Load)
			}
		})
	}
}
