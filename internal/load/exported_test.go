package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/exports/exportstest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

const shopARN = "arn:aws:dynamodb:eu-west-1:1:table/Orders"

// exported makes an export of the shop, with n items in three files, and requests a load from it.
func (s *loadScene) exported(ctx context.Context, n int, at time.Time) (o *exportstest.Objects, e *exports.Export) {
	s.Helper()
	o, e = s.archived(ctx, n, at)
	_, err := s.Ledger.AskExport(ctx, "Orders", true, checkpoint.Export{Address: "/exports/1", ARN: e.ARN, At: e.At})
	s.check(err)
	return o, e
}

// archived makes an export of the shop, with n items in three files, where workers find it.
func (s *loadScene) archived(ctx context.Context, n int, at time.Time) (o *exportstest.Objects, e *exports.Export) {
	s.Helper()
	files := make([][]attribute.Item, 3)
	for i := range n {
		files[i%3] = append(files[i%3], enginetest.Keyed(fmt.Sprint("i", i)))
	}
	o = &exportstest.Objects{}
	s.check(o.Full(exportstest.Table{ARN: shopARN, ID: s.shop.id}, "1", at, files...))
	e, err := exports.Read(ctx, o, "1")
	s.check(err)
	s.Options.Folders = func(_ context.Context, address string) (exports.Store, string, error) {
		if address != "/exports/1" {
			return nil, "", errors.New("another address")
		}
		return o, "1", nil
	}
	return o, e
}

// TestALoadOfAnExport: files are its parts. Images have the time of the export, so newer changes
// keep their rows. The sweep finds the items that are in no file.
func TestALoadOfAnExport(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.inherited(ctx, "gone")
		s.change(ctx, func(state *checkpoint.TableState) { state.GapCount, state.AdoptedAt = 1, task.Now(ctx) })
		s.check(task.Sleep(ctx, time.Hour))
		s.Ledger.Heard(ctx, task.Now(ctx))
		at := task.Now(ctx)
		s.exported(ctx, 12, at)
		s.check(task.Sleep(ctx, time.Hour))
		s.Ledger.Heard(ctx, task.Now(ctx))
		s.check(s.work(ctx, 10*time.Minute, true))
		state := s.state(ctx)
		if state.Load.Source != "export" || state.Load.Parts != 3 || state.Load.Items != 12 || !state.Loaded() || state.Base != 2 {
			t.Errorf("%+v", state.Load)
		}
		if s.shop.reads != 0 {
			t.Errorf("the source was scanned %d times", s.shop.reads)
		}
		live := s.live(ctx)
		if len(live) != 12 || slices.Contains(live, "gone") {
			t.Errorf("rows %v", live)
		}
		s.check(s.target.ReadRows(ctx, "orders", sink.Range{}, func(r sink.Row) error {
			for _, c := range r.Cells {
				if c.Family == "d" && c.Timestamp != at.Truncate(time.Millisecond).UnixMicro() {
					t.Errorf("a cell is of %s", time.UnixMicro(c.Timestamp).UTC())
				}
			}
			return nil
		}))
	})
}

// TestH105_OldExportsAreRefused: an export that is too old is refused before its first item, and
// none of its images is parked. So are exports of another table, from before the generation, and
// replaced ones.
func TestH105_OldExportsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		age   time.Duration // at the load
		spoil func(ctx context.Context, s *loadScene, o *exportstest.Objects, e *exports.Export)
		want  string
	}{
		"too old":       {3 * time.Hour, nil, "the export is 3h0m0s old"},
		"before it all": {-30 * time.Minute, nil, "began at"},
		"another table": {time.Hour, func(_ context.Context, s *loadScene, _ *exportstest.Objects, _ *exports.Export) { s.shop.id = "second" }, "another table of the same name"},
		"exchanged": {time.Hour, func(ctx context.Context, s *loadScene, o *exportstest.Objects, e *exports.Export) {
			s.check(o.Full(exportstest.Table{ARN: shopARN, ID: s.shop.id}, "1", e.At.Add(time.Second), nil))
		}, "not the requested export"},
	} {
		t.Run(name, func(t *testing.T) {
			loads(t, func(ctx context.Context, s *loadScene) {
				var failures []string
				s.Events.Retry = func(_, _ string, _ time.Duration, err error) { failures = append(failures, err.Error()) }
				s.Writer = sink.NewWriter(sink.Options{Table: s.target, Parking: sink.NewParking(nil, "p"), Floor: s.Floors.Floor, MaxImageAge: 4 * time.Hour})
				now := task.Now(ctx)
				s.change(ctx, func(state *checkpoint.TableState) { state.GapCount, state.AdoptedAt = 1, now.Add(-9*24*time.Hour) })
				at := now.Add(-c.age)
				if c.age < 0 {
					s.change(ctx, func(state *checkpoint.TableState) { state.GapCount, state.AdoptedAt = 1, now })
					at = now.Add(c.age)
				}
				o, e := s.exported(ctx, 12, at)
				if c.spoil != nil {
					c.spoil(ctx, s, o, e)
				}
				s.check(s.work(ctx, time.Minute, true))
				if state := s.state(ctx); state.Stage() != checkpoint.StageAsked || len(s.live(ctx)) != 0 {
					t.Errorf("%s: %+v", state.Stage(), state.Load)
				}
				if text := strings.Join(failures, "\n"); !strings.Contains(text, c.want) {
					t.Errorf("it says %q, and should say %q", text, c.want)
				}
			})
		})
	}
}

// H105: the age of an export's image is measured by the source's clock when the image is written.
// The worker's own clock may be hours behind, and a removed item would come back.
func TestH105_TheAgeOfAnExportIsOfTheSourcesClock(t *testing.T) {
	const behind = 5 * time.Hour
	for age, live := range map[time.Duration]int{3 * time.Hour: 12, 280 * time.Minute: 0} {
		loads(t, func(ctx context.Context, s *loadScene) {
			var failures []string
			s.Events.Retry = func(_, _ string, _ time.Duration, err error) { failures = append(failures, err.Error()) }
			s.Writer = sink.NewWriter(sink.Options{Table: s.target, Parking: sink.NewParking(nil, "p"), Floor: s.Floors.Floor, MaxImageAge: imageAgeMargin + 4*time.Hour})
			s.shop.behind = -behind
			now := task.Now(ctx).Add(behind)
			s.Ledger.Heard(ctx, now)
			s.change(ctx, func(state *checkpoint.TableState) { state.GapCount, state.AdoptedAt = 1, now.Add(-9*24*time.Hour) })
			s.exported(ctx, 12, now.Add(-age))
			s.check(s.work(ctx, time.Minute, true))
			if got := len(s.live(ctx)); got != live || (live == 0) != strings.Contains(strings.Join(failures, "\n"), "old, but a load takes images of at most 4h0m0s") {
				t.Errorf("%s old: %d rows, %q", age, got, failures)
			}
		})
	}
}
