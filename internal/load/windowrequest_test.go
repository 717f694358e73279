package load

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/exports/exportstest"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
)

// The windows begin before the loss and end after the stream is read again. Each step follows from
// the record and the service's clock.
func TestWhatIsNextForWindows(t *testing.T) {
	now := enginetest.ListingsBegin.Add(1000 * time.Hour)
	const oldest = 20 * time.Hour
	lost := func(age time.Duration) func(s *checkpoint.TableState) {
		return func(s *checkpoint.TableState) { s.LostFrom = now.Add(-age) }
	}
	planned := func(edit func(s *checkpoint.TableState)) func(s *checkpoint.TableState) {
		return func(s *checkpoint.TableState) {
			from := s.WindowsBy()
			s.Load.Request.Serial, s.Load.Request.Attempts, s.Load.Request.Generation = 1, 1, 2
			s.Load.Request.Windows = []checkpoint.WindowRequest{{From: from, To: from.Add(10 * time.Hour)}, {From: from.Add(10 * time.Hour), To: now.Add(-10 * time.Minute)}}
			edit(s)
		}
	}
	same := func(*checkpoint.TableState) {}
	const margin = 6 * time.Second
	for name, c := range map[string]struct {
		edit    func(s *checkpoint.TableState)
		want    exportStep
		windows int
	}{
		"nothing was done yet": {same, exportBegins, 2},
		"exactly 24 hours":     {lost(24*time.Hour + source.Recoverable - margin), exportBegins, 1},
		"one second more":      {lost(24*time.Hour + source.Recoverable - margin + time.Second), exportBegins, 2},
		"35 days":              {lost(35 * 24 * time.Hour), exportBegins, 35},
		"a short gap":          {lost(8 * time.Minute), exportBegins, 1},
		"a short gap, and backups are as young": {func(s *checkpoint.TableState) {
			lost(8 * time.Minute)(s)
			s.Load.Request.NotBefore = now.Add(-9*time.Minute - 500*time.Millisecond)
		}, exportWaits, 0},
		"a short gap, and backups are old enough": {func(s *checkpoint.TableState) {
			lost(18 * time.Minute)(s)
			s.Load.Request.NotBefore = now.Add(-20*time.Minute - 500*time.Millisecond)
		}, exportBegins, 1},
		"backups began after the loss":           {func(s *checkpoint.TableState) { s.Load.Request.NotBefore = s.WindowsBy().Add(time.Second) }, exportEnds, 0},
		"backups began in time":                  {func(s *checkpoint.TableState) { s.Load.Request.NotBefore = s.WindowsBy() }, exportBegins, 2},
		"the stream is not read for long enough": {func(s *checkpoint.TableState) { s.AdoptedAt = now.Add(-14 * time.Minute) }, exportWaits, 0},
		"it is":                                  {func(s *checkpoint.TableState) { s.AdoptedAt = now.Add(-15 * time.Minute) }, exportBegins, 2},
		"the target was lost too":                {func(s *checkpoint.TableState) { s.Kind = checkpoint.KindTargetLost }, exportEnds, 0},
		"a window failed":                        {planned(func(s *checkpoint.TableState) { s.Load.Request.Failed = "no" }), exportWaits, 0},
		"the load is paused":                     {func(s *checkpoint.TableState) { s.Load.Paused = checkpoint.PausedByOperator }, exportWaits, 0},
		"the stream has ended":                   {func(s *checkpoint.TableState) { s.StreamEnded = true }, exportWaits, 0},
		"they are requested":                     {planned(same), exportReport, 0},
		"they are there":                         {planned(func(s *checkpoint.TableState) { s.Load.Export.Address = "s3://b/1" }), exportThere, 0},
		"an earlier loss was found":              {planned(func(s *checkpoint.TableState) { s.LostFrom = s.LostFrom.Add(-time.Second) }), exportBegins, 2},
		"a new gap: windows are added": {planned(func(s *checkpoint.TableState) {
			s.AdoptedAt, s.Load.Request.Windows[1].To = now.Add(-15*time.Minute), now.Add(-20*time.Minute)
		}), exportBegins, 3},
		"a new gap, and less than 15min": {planned(func(s *checkpoint.TableState) { s.AdoptedAt = now.Add(-15 * time.Minute) }), exportWaits, 0},
		"too old":                        {planned(func(s *checkpoint.TableState) { s.AdoptedAt = now.Add(-21 * time.Hour) }), exportBegins, 2},
		"too often": {planned(func(s *checkpoint.TableState) {
			s.AdoptedAt, s.Load.Request.Attempts = now.Add(-21*time.Hour), checkpoint.MaxTries
		}), exportEnds, 0},
	} {
		state := checkpoint.TableState{Source: "Orders", Label: "label", Generation: 2, Adopted: 2, Listed: 2, GapCount: 1, AdoptedAt: now.Add(-time.Hour), Base: 1, NeedsLoad: true,
			Kind: checkpoint.KindStream, LostFrom: now.Add(-30 * time.Hour), Load: checkpoint.Load{AskedAt: now, Request: checkpoint.ExportRequest{To: "s3://b", Incremental: true}}}
		c.edit(&state)
		got, windows, why := nextWindowsStep(engine.View{State: state}, now, 0, oldest)
		if got != c.want || len(windows) != c.windows || (why != "") != (got == exportEnds) {
			t.Errorf("%s: %d with %d windows, %q; want %d with %d", name, got, len(windows), why, c.want, c.windows)
		}
		if n := len(windows); n > 0 && !windows[n-1].To.Equal(now.Add(-source.Recoverable)) {
			t.Errorf("%s: they end at %s", name, windows[n-1].To)
		}
		if len(windows) > 0 && (windows[0].From.After(state.WindowsBy()) || !windows[0].From.Equal(windows[0].From.Truncate(time.Second)) || windows[0].From.Before(state.Load.Request.NotBefore)) {
			t.Errorf("%s: from %s, lost since %s", name, windows[0].From, state.WindowsBy())
		}
	}
}

// Only a few windows are in flight, and a request whose token is forgotten gets another one.
func TestHowManyWindowsAreInFlight(t *testing.T) {
	now := enginetest.ListingsBegin
	var all []checkpoint.WindowRequest
	for range windowsAtOnce + 3 {
		all = append(all, checkpoint.WindowRequest{})
	}
	if due := dueWindows(all, now); len(due) != windowsAtOnce {
		t.Errorf("%d at first", len(due))
	}
	for i := range windowsAtOnce {
		all[i].AskedAt = now
	}
	if due := dueWindows(all, now); len(due) != 0 {
		t.Errorf("%d more", len(due))
	}
	all[0].Export.Address, all[1].ARN, all[2].Failed = "s3://b/1", "arn", "no"
	if due := dueWindows(all, now.Add(tokenLives)); len(due) != 2 {
		t.Errorf("%d in the place of the ended ones", len(due))
	}
	if due := dueWindows(all, now.Add(tokenLives+time.Second)); len(due) != 2+windowsAtOnce-3 {
		t.Errorf("%d after the life of their tokens", len(due))
	}
}

// windowed is DynamoDB as it exports windows: the first window has the put, each other one is empty.
type windowed struct {
	archive
	fail  string // the beginning of the token's window that fails, in RFC 3339
	moved bool   // an export has another time than the window
}

func (a *windowed) Report(ctx context.Context, arn string) (backfill.ExportReport, error) {
	r, err := a.archive.Report(ctx, arn)
	n := 0
	_, _ = fmt.Sscanf(arn, shopARN+"/export/%d", &n)
	if o := a.orders[n-1]; err == nil && o.From.Format(time.RFC3339) == a.fail {
		r.Failed, r.Done = "S3NoSuchBucket: none", false
	}
	return r, err
}

func (a *windowed) open(_ context.Context, address string) (exports.Store, string, error) {
	id := address[strings.LastIndexByte(address, '/')+1:]
	n := 0
	_, _ = fmt.Sscan(id, &n)
	o, table := a.orders[n-1], exportstest.Table{ARN: shopARN, ID: a.scene.shop.id}
	from := o.From
	if a.moved {
		from = from.Add(-time.Second)
	}
	var changes []exportstest.Change
	if n == 1 {
		changes = append(changes, exportstest.Change{Keys: enginetest.Keyed("i11"), New: enginetest.Keyed("i11"), Written: o.At.Add(-time.Second)})
	}
	a.scene.check(a.objects.Window(table, id, from, o.At, "NEW_AND_OLD_IMAGES", changes))
	return &a.objects, id, nil
}

// mends begins a scene whose stream has lost changes since a time, and requests windows.
func (s *loadScene) mends(ctx context.Context, a *windowed, age time.Duration) *windowed {
	s.Helper()
	a.scene = s
	s.Exporter, s.Options.Folders = a, a.open
	from := task.Now(ctx).Add(-age).Truncate(time.Second)
	s.lost(ctx, from, stocked(11, "deleted")...)
	s.change(ctx, func(state *checkpoint.TableState) { state.AdoptedAt = task.Now(ctx) })
	_, err := s.Ledger.RequestExport(ctx, "Orders", true, checkpoint.ExportRequest{To: "s3://bucket/p", NotBefore: from.Add(-time.Hour), Incremental: true})
	s.check(err)
	return a
}

// Windows are requested, waited for and loaded, whichever coordinator continues and whatever answers
// are lost. No window is requested twice.
func TestWindowsThatAreAskedFor(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		a := s.mends(ctx, &windowed{archive: archive{takes: 40 * time.Minute, lost: 2}}, 70*time.Hour)
		if state := s.conducts(ctx, 10*time.Minute); len(a.orders) > 0 || state.Stage() != checkpoint.StageAsked {
			t.Errorf("before the stream is read for long enough: %+v", a.orders)
		}
		state := s.conducts(ctx, 20*time.Minute)
		if w := state.Load.Request.Windows; len(w) != 3 || w[2].State() != checkpoint.WindowRunning {
			t.Errorf("under way: %+v", state.Load.Request)
		}
		state = s.conducts(ctx, 60*time.Minute)
		if state.Base != 2 || state.NeedsLoad || len(state.Load.Exports()) != 3 || s.shop.reads != 0 {
			t.Errorf("%+v", state.Load)
		}
		if len(a.orders) != 3 || a.calls < 5 || !a.orders[0].From.Equal(state.Load.Exports()[0].From) || a.orders[0].Bucket != "bucket" || a.orders[0].Prefix != "p" || a.orders[0].TableARN != shopARN {
			t.Errorf("%d calls: %+v", a.calls, a.orders)
		}
		s.wantStock(ctx)
	})
}

// One failed window ends the request with its place. The repeated request asks only for it.
func TestAWindowThatFails(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		a := s.mends(ctx, &windowed{}, 70*time.Hour)
		a.fail = s.state(ctx).WindowsBy().Format(time.RFC3339)
		state := s.conducts(ctx, 30*time.Minute)
		if !strings.Contains(state.Load.Request.Failed, "the window from "+a.fail) || !strings.Contains(state.Load.Request.Failed, "S3NoSuchBucket") || len(a.orders) != 3 {
			t.Fatalf("%d orders, %+v", len(a.orders), state.Load.Request)
		}
		a.fail = ""
		_, err := s.Ledger.RequestExport(ctx, "Orders", true, checkpoint.ExportRequest{To: "s3://bucket/p", Incremental: true})
		s.check(err)
		if state := s.conducts(ctx, 10*time.Minute); state.NeedsLoad || len(a.orders) != 4 {
			t.Errorf("%d orders, %+v", len(a.orders), state.Load)
		}
	})
}

// What ends a request for windows, and what is only tried again.
func TestWhatEndsARequestForWindows(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(a *windowed)
		want  string
	}{
		"another time":   {func(a *windowed) { a.moved = true }, "another export"},
		"off":            {func(a *windowed) { a.refuse = &backfill.ExportRefusal{Code: "PointInTimeRecoveryUnavailableException"} }, "Unavailable"},
		"never a time":   {func(a *windowed) { a.refuse = &backfill.ExportRefusal{Code: "InvalidExportTimeException"} }, "InvalidExportTime"},
		"too many":       {func(a *windowed) { a.refuse = errors.New("LimitExceededException") }, ""},
		"no description": {func(a *windowed) { a.unknown = func() error { return errors.New("no answer") } }, ""},
	} {
		loads(t, func(ctx context.Context, s *loadScene) {
			a := s.mends(ctx, &windowed{}, 3*time.Hour)
			c.spoil(a)
			state := s.conducts(ctx, 40*time.Minute)
			if r := state.Load.Request; !state.NeedsLoad || (r.Failed != "") != (c.want != "") || !strings.Contains(r.Failed, c.want) {
				t.Errorf("%s: %+v", name, r)
			}
		})
	}
}
