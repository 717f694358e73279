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
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/exports/exportstest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// archive is DynamoDB as it exports the shop: a repeated order with a known token gives the same
// export.
type archive struct {
	scene  *loadScene
	takes  time.Duration
	refuse error // the error of every order
	fails  string
	part   string
	lost   int // how many answers to orders are lost

	unknown func() error // replaces a report; nil: there is one
	opens   error        // the error when its files are opened
	ion     bool         // in another format
	renamed bool         // another export is at its address

	orders  []backfill.ExportOrder // without repetitions
	calls   int
	reports int
	objects exportstest.Objects
}

func (a *archive) Request(_ context.Context, o backfill.ExportOrder) (backfill.ExportReport, error) {
	a.calls++
	if a.refuse != nil {
		return backfill.ExportReport{}, a.refuse
	}
	n := 0
	for n < len(a.orders) && a.orders[n].Token != o.Token {
		n++
	}
	if n == len(a.orders) {
		a.orders = append(a.orders, o)
	}
	if a.lost > 0 {
		a.lost--
		return backfill.ExportReport{}, errors.New("no answer")
	}
	return backfill.ExportReport{ARN: fmt.Sprint(shopARN, "/export/", n+1), JSON: true}, nil
}

func (a *archive) Report(ctx context.Context, arn string) (backfill.ExportReport, error) {
	a.reports++
	if a.unknown != nil {
		if err := a.unknown(); err != nil {
			return backfill.ExportReport{}, err
		}
	}
	n := 0
	_, _ = fmt.Sscanf(arn, shopARN+"/export/%d", &n)
	o := a.orders[n-1]
	r := backfill.ExportReport{ARN: arn, Bucket: o.Bucket, JSON: !a.ion, Part: a.part}
	if task.Now(ctx).Sub(o.At) < a.takes {
		return r, nil
	}
	r.Done, r.Manifest, r.Failed = true, fmt.Sprintf("%s/AWSDynamoDB/%d/manifest-summary.json", o.Prefix, n), a.fails
	return r, nil
}

// open opens the exports for a worker.
func (a *archive) open(_ context.Context, address string) (exports.Store, string, error) {
	id, ok := strings.CutPrefix(address, "s3://bucket/deep//er/AWSDynamoDB/")
	if !ok {
		return nil, "", &exports.Error{Place: address, What: "no manifest", Fix: "f"}
	}
	if a.opens != nil {
		return nil, "", a.opens
	}
	n := 0
	_, _ = fmt.Sscan(id, &n)
	var items []attribute.Item
	for i := range a.scene.shop.items {
		items = append(items, enginetest.Keyed(fmt.Sprint("i", i)))
	}
	table := exportstest.Table{ARN: shopARN, ID: a.scene.shop.id}
	if a.renamed {
		table.ARN += "0"
	}
	a.scene.check(a.objects.Full(table, id, a.orders[n-1].At, items))
	return &a.objects, id, nil
}

// wishes gives the scene's worker an archive, and requests a load from an export.
func (s *loadScene) wishes(ctx context.Context, a *archive) *archive {
	s.Helper()
	a.scene = s
	s.Exporter, s.Options.Folders = a, a.open
	s.change(ctx, func(state *checkpoint.TableState) { state.GapCount, state.AdoptedAt = 1, task.Now(ctx) })
	s.pass(ctx, 2*checkpoint.Slack)
	_, err := s.Ledger.RequestExport(ctx, "Orders", true, checkpoint.ExportRequest{To: "s3://bucket/deep//er", NotBefore: task.Now(ctx)})
	s.check(err)
	return a
}

// pass lets time pass, and gives the ledger the service's time.
func (s *loadScene) pass(ctx context.Context, d time.Duration) {
	s.Helper()
	s.check(task.Sleep(ctx, d))
	s.Ledger.Heard(ctx, task.Now(ctx))
}

// conducts runs a new conductor, which knows only the ledger, and the loader for a duration.
func (s *loadScene) conducts(ctx context.Context, d time.Duration) checkpoint.TableState {
	s.Helper()
	for range d / time.Minute {
		s.Reset()
		s.check(s.work(ctx, time.Minute, true))
		s.Ledger.Heard(ctx, task.Now(ctx))
	}
	return s.state(ctx)
}

// raised begins another generation.
func (s *loadScene) raised(ctx context.Context) {
	s.Helper()
	s.change(ctx, func(state *checkpoint.TableState) {
		state.Generation++
		state.Adopted, state.Listed, state.AdoptedAt = state.Generation, state.Generation, task.Now(ctx)
		state.GapCount++
	})
	s.pass(ctx, 2*checkpoint.Slack)
}

// TestAnExportThatIsAskedFor: the load comes from the export, whatever answers are lost and
// whichever coordinator continues.
func TestAnExportThatIsAskedFor(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		var told []string
		s.Events.Exporting = func(table, arn, failed string) { told = append(told, table+" "+arn+failed) }
		a := s.wishes(ctx, &archive{takes: 10 * time.Minute, lost: 2})
		if state := s.conducts(ctx, 5*time.Minute); state.Load.Request.ARN != shopARN+"/export/1" || state.Stage() != checkpoint.StageAsked {
			t.Errorf("under way: %+v", state.Load)
		}
		state := s.conducts(ctx, 20*time.Minute)
		if !state.Loaded() || state.Load.Source != "export" || state.Load.Export.Address != "s3://bucket/deep//er/AWSDynamoDB/1" || len(s.live(ctx)) != 12 || s.shop.reads != 0 {
			t.Errorf("%+v, %d rows", state.Load, len(s.live(ctx)))
		}
		if len(a.orders) != 1 || a.calls < 3 || a.orders[0].At.Nanosecond() != 0 || a.orders[0].At.Before(state.AdoptedAt) || a.orders[0].Bucket != "bucket" || a.orders[0].TableARN != shopARN || !slices.Equal(told, []string{"Orders " + shopARN + "/export/1"}) {
			t.Errorf("%d calls: %+v, told %q", a.calls, a.orders, told)
		}
	})
}

// TestH106_AnExportOfBeforeARaiseIsAskedForAgain: it is requested again as another export, a
// limited number of times.
func TestH106_AnExportOfBeforeARaiseIsAskedForAgain(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		a := s.wishes(ctx, &archive{takes: time.Hour})
		for n := range 2 {
			s.conducts(ctx, 3*time.Minute)
			if len(a.orders) != n+1 {
				t.Fatalf("%d exports", len(a.orders))
			}
			s.raised(ctx)
		}
		if s.conducts(ctx, 3*time.Minute); len(a.orders) != 3 || a.orders[2].At.Before(s.state(ctx).AdoptedAt) {
			t.Fatalf("%+v", a.orders)
		}
		s.raised(ctx)
		state := s.conducts(ctx, 3*time.Hour)
		if len(a.orders) != 3 || !strings.Contains(state.Load.Request.Failed, "3 exports were requested") || state.Stage() != checkpoint.StageAsked {
			t.Errorf("%d exports, %+v", len(a.orders), state.Load)
		}
		// If an operator requests one again, it is a new export.
		_, err := s.Ledger.RequestExport(ctx, "Orders", true, checkpoint.ExportRequest{To: "s3://bucket/deep//er"})
		s.check(err)
		if state := s.conducts(ctx, 2*time.Hour); len(a.orders) != 4 || !state.Loaded() {
			t.Errorf("%d exports, %+v", len(a.orders), state.Load)
		}
	})
}

// TestH106_OneRefusedExportEndsTheAsking: the load then waits for an operator, even in a run with
// Once.
func TestH106_OneRefusedExportEndsTheAsking(t *testing.T) {
	refusal := &backfill.ExportRefusal{Code: "PointInTimeRecoveryUnavailableException", Message: "off"}
	for name, c := range map[string]struct {
		archive *archive
		want    string
		calls   int
	}{
		"refused":      {&archive{refuse: fmt.Errorf("op: %w", refusal)}, "DynamoDB: PointInTimeRecoveryUnavailableException: off", 1},
		"failed":       {&archive{fails: "S3NoSuchBucket: none"}, "S3NoSuchBucket: none", 1},
		"filtered":     {&archive{part: "a filter"}, "not of the whole table", 1},
		"never a time": {&archive{refuse: &backfill.ExportRefusal{Code: "InvalidExportTimeException"}}, "InvalidExportTimeException", 0},
	} {
		t.Run(name, func(t *testing.T) {
			loads(t, func(ctx context.Context, s *loadScene) {
				a := s.wishes(ctx, c.archive)
				state := s.conducts(ctx, time.Hour)
				if !strings.Contains(state.Load.Request.Failed, c.want) || state.Stage() != checkpoint.StageAsked || len(s.live(ctx)) != 0 || s.shop.reads != 0 {
					t.Errorf("%+v", state.Load)
				}
				if c.calls > 0 && a.calls != c.calls || a.calls == 0 {
					t.Errorf("%d calls", a.calls)
				}
				if s.Spec.Loading(state) {
					t.Error("a run with Once would wait for it")
				}
			})
		})
	}
}

// TestAWishGivesWay: if the export fails, an operator may request a scan instead.
func TestAWishGivesWay(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		a := s.wishes(ctx, &archive{refuse: errors.New("denied")})
		s.conducts(ctx, 5*time.Minute)
		_, err := s.Ledger.AskLoad(ctx, "Orders", true)
		s.check(err)
		a.refuse = nil
		if state := s.conducts(ctx, 10*time.Minute); !state.Loaded() || state.Load.Source != "scan" || len(a.orders) != 0 {
			t.Errorf("%+v, %d exports", state.Load, len(a.orders))
		}
	})
}
