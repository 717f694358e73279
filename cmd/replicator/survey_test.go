package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// many is a ledger of so many tables, each with a shard of its name, of which the last one has a parked item.
func many(t *testing.T, n int) (*checkpointtest.Memory, *checkpoint.Ledger, *sink.Parking, []config.Table) {
	t.Helper()
	store, parking := &checkpointtest.Memory{}, sink.NewParking(&sinktest.Records{}, "many")
	ledger, err := checkpoint.Open(t.Context(), store, "many", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	var tables []config.Table
	for i := range n {
		source := fmt.Sprintf("Log_%04d", i)
		tables = append(tables, config.Table{From: source, To: "logs"})
		if _, err := ledger.UpdateTable(t.Context(), source, func(s *checkpoint.TableState) error { s.Label = "L"; return nil }); err != nil {
			t.Fatal(err)
		}
		if err := ledger.CreateShard(t.Context(), checkpoint.Shard{Source: source, Label: "L", ID: "of-" + source, State: checkpoint.Waiting}); err != nil {
			t.Fatal(err)
		}
	}
	slices.Reverse(tables) // the configuration's order, not that of keys
	change := cdc.Change{Event: cdc.Remove, Keys: attribute.NewItem([]attribute.Attribute{{Name: "id", Value: attribute.String("k")}})}
	if err := parking.Park(t.Context(), transform.Parked{Source: tables[0].From, Key: "S:k", Reason: "no", Change: change}); err != nil {
		t.Fatal(err)
	}
	return store, ledger, parking, tables
}

// TestTablesAreReadSideBySide: as many at a time as is said and no more, and what comes of it is in the order of the tables. The store's clock stands
// still while any task gets on, so that all reads that are let begin are seen at the same time.
func TestTablesAreReadSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ledger, parking, tables := many(t, 2000)
		var running, most, reads atomic.Int64
		store.OnRead = func(context.Context, string) error {
			now := running.Add(1)
			defer running.Add(-1)
			for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
			}
			reads.Add(1)
			time.Sleep(time.Millisecond)
			return nil
		}
		inputs, err := readTables(t.Context(), ledger, parking, tables)
		if err != nil {
			t.Fatal(err)
		}
		if most.Load() != tablesAtOnce || reads.Load() < int64(len(tables)) {
			t.Errorf("%d reads at a time, of %d", most.Load(), reads.Load())
		}
		if len(inputs) != len(tables) || inputs[0].parked != 1 || inputs[1].parked != 0 {
			t.Errorf("%d tables, of which the first has %d parked", len(inputs), inputs[0].parked)
		}
		for i, in := range inputs {
			if source := tables[i].From; !in.found || in.state.Source != source || len(in.shards) != 1 || in.shards[0].ID != "of-"+source {
				t.Fatalf("in the place of %s: %+v", source, in)
			}
		}
	})
}

// TestTheFirstFailureEndsTheReading: of the reads that are under way and of those that were to come.
func TestTheFirstFailureEndsTheReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ledger, parking, tables := many(t, 200)
		boom := errors.New("boom")
		var reads atomic.Int64
		store.OnRead = func(ctx context.Context, _ string) error {
			if reads.Add(1) == tablesAtOnce {
				return boom
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}
		if _, err := readTables(t.Context(), ledger, parking, tables); !errors.Is(err, boom) || reads.Load() >= 2*tablesAtOnce { // a few may just begin
			t.Errorf("%v after %d reads", err, reads.Load())
		}
	})
}

// TestSurveysThatFailAreToldOnce, and that they work again as well.
func TestSurveysThatFailAreToldOnce(t *testing.T) {
	var out bytes.Buffer
	plain := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	b := blindness{log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: plain}))}
	now := noon
	for i, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errReadTime, `level=WARN msg="cannot read the ledger for the metrics: headroom and last poll are those of the last reading, or missing" error="no answer within 20s"`},
		{errReadTime, ""},
		{errors.New("another"), ""},
		{nil, `level=INFO msg="reads the ledger for the metrics again" took=15s`},
		{nil, ""},
		{errors.New("another"), `level=WARN msg="cannot read the ledger for the metrics: headroom and last poll are those of the last reading, or missing" error=another`},
	} {
		out.Reset()
		b.note(c.err, now)
		if got := strings.TrimSpace(out.String()); got != c.want {
			t.Errorf("survey %d: told %q, want %q", i, got, c.want)
		}
		now = now.Add(5 * time.Second)
	}
}

// aloud is a log that gives each message to whoever waits for it.
type aloud struct {
	slog.Handler
	lines chan string
}

func (aloud) Enabled(context.Context, slog.Level) bool { return true }

func (l aloud) Handle(_ context.Context, r slog.Record) error {
	l.lines <- r.Message
	return nil
}

// await waits for a message with a text in it.
func (l aloud) await(ctx context.Context, t *testing.T, text string) {
	t.Helper()
	for {
		select {
		case line := <-l.lines:
			if strings.Contains(line, text) {
				return
			}
		case <-ctx.Done():
			t.Errorf("nobody tells: %s", text)
			return
		}
	}
}

// parkedAndHealed parks the change of an item with the given number, and applies the next one.
func parkedAndHealed(t *testing.T, cfg *config.Config, to *target, m *transform.Mapping, number uint64) *sink.Parking {
	t.Helper()
	var key []attribute.Attribute
	for _, a := range m.PrimaryKey {
		key = append(key, attribute.Attribute{Name: a.Name, Value: attribute.String("k")})
	}
	item, stamp := attribute.NewItem(key), transform.Stamp{Generation: 7, Hop: cdc.RootHop}
	change := cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(number), Time: noon, Keys: item, New: item}
	before := transform.Fold(m, []cdc.Change{change}, stamp)
	parking := sink.NewParking(to.data.Records(cfg.State.Table), cfg.Name)
	if err := parking.Park(t.Context(), before.Park(before.Rows[0], "no")); err != nil {
		t.Fatal(err)
	}
	change.Sequence = cdc.SequenceOf(number + 1)
	after := transform.Fold(m, []cdc.Change{change}, stamp)
	if err := sink.NewWriter(sink.Options{Table: to.data, Rows: to.data, Parking: parking}).Write(t.Context(), &after); err != nil {
		t.Fatal(err)
	}
	return parking
}

// A survey looks after what is parked, and forgets what a later change has healed: nobody else does, and it would count for ever.
func TestASurveyForgetsWhatIsHealed(t *testing.T) {
	cfg, to, s := connectedTarget(t, ordersConfig)
	ledger := begunIn(t, "c1", cfg, to, s)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // a survey that never looks must not run for ever
	defer cancel()
	if _, err := ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error { s.Generation = 7; return nil }); err != nil {
		t.Fatal(err)
	}
	m, err := mapTable(cfg.Tables[0], []transform.KeyAttribute{{Name: "id", Type: attribute.KindS}})
	if err != nil {
		t.Fatal(err)
	}
	parking := parkedAndHealed(t, cfg, to, m, 1)

	log := aloud{slog.DiscardHandler, make(chan string, 10)}
	w := &worker{program: &program{env: nothingSet}, cfg: cfg, log: slog.New(log), target: to,
		found: probed{tables: []probedTable{{config: cfg.Tables[0], mapping: m}}}}
	surveying, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.survey(surveying, silentObserver(), parking)
	}()
	log.await(ctx, t, "resolved")
	end()
	<-ended
	if n, err := parking.CountOf(t.Context(), "Orders"); err != nil || n != 0 {
		t.Errorf("%d are parked, %v", n, err)
	}
}

// What runs beside a survey is run again once it has ended, and waited for in the end: it must not use clients that are closed.
func TestBesideAgainAndWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		beside, wait := oneBeside()
		ran := 0
		for range 2 {
			beside(func() { ran++ })
			synctest.Wait()
		}
		end, waited := make(chan struct{}), false
		beside(func() { <-end })
		go func() { wait(); waited = true }()
		synctest.Wait()
		if ran != 2 || waited {
			t.Errorf("ran %d times; the end of what runs is waited for: %v", ran, !waited)
		}
		close(end)
		synctest.Wait()
		if !waited {
			t.Error("what has ended is waited for")
		}
	})
}

// One parked item, of any table, is enough for a look.
func TestAnyParked(t *testing.T) {
	for _, c := range []struct {
		parked []int
		want   bool
	}{{nil, false}, {[]int{0, 0}, false}, {[]int{0, 1}, true}, {[]int{1, 0}, true}} {
		m := &migration{}
		for _, n := range c.parked {
			m.Tables = append(m.Tables, tableStatus{Parked: n})
		}
		if got := m.anyParked(); got != c.want {
			t.Errorf("%v: %v", c.parked, got)
		}
	}
}
