package verify

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
	"github.com/dynamodb-bigtable/replicator/test/kit"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// tailed is a stream of several shards, a change a page. Between two changes there are empty pages.
type tailed struct {
	shards  map[string][]cdc.Change
	listed  []string
	closed  []string // their last page says that they end
	trimmed []string // what follows their checkpoint is not there any more
	gone    []string // listed, but not there any more
	denied  bool     // reads are denied
	empty   int      // pages before each change
	reads   map[string]int
}

func (s *tailed) ListPage(context.Context, string, string) (page cdc.ListingPage, err error) {
	for _, id := range s.listed {
		page.Shards = append(page.Shards, cdc.Shard{ID: id})
	}
	return page, nil
}

func (s *tailed) Seek(_ context.Context, shard string, from cdc.Position) (cdc.Iterator, error) {
	switch {
	case s.denied:
		return "", &cdc.Error{Op: "GetShardIterator", Reason: cdc.Denied, Err: errors.New("denied")}
	case slices.Contains(s.gone, shard):
		return "", &cdc.Error{Op: "GetShardIterator", Reason: cdc.NotFound, Err: errors.New("gone")}
	case slices.Contains(s.trimmed, shard) && !from.AtHorizon():
		return "", &cdc.Error{Op: "GetShardIterator", Reason: cdc.Trimmed, Err: errors.New("trimmed")}
	}
	at := 0
	for i, c := range s.shards[shard] {
		if !from.AtHorizon() && c.Sequence.Compare(from.After) <= 0 {
			at = i + 1
		}
	}
	return cdc.Iterator(fmt.Sprintf("%s %d %d", shard, at, s.empty)), nil
}

func (s *tailed) Read(_ context.Context, at cdc.Iterator) (cdc.Page, error) {
	var shard string
	var n, empty int
	if _, err := fmt.Sscanf(string(at), "%s %d %d", &shard, &n, &empty); err != nil {
		return cdc.Page{}, err
	}
	s.reads[shard]++
	changes := s.shards[shard]
	switch {
	case n == len(changes) && slices.Contains(s.closed, shard):
		return cdc.Page{End: true}, nil
	case n == len(changes):
		return cdc.Page{Next: at}, nil
	case empty > 0:
		return cdc.Page{Next: cdc.Iterator(fmt.Sprintf("%s %d %d", shard, n, empty-1))}, nil
	}
	return cdc.Page{Changes: changes[n : n+1], Next: cdc.Iterator(fmt.Sprintf("%s %d %d", shard, n+1, s.empty))}, nil
}

// changed are changes of items, with the numbers 1, 2, …
func changed(keys ...string) (all []cdc.Change) {
	for i, pk := range keys {
		all = append(all, cdc.Change{Event: cdc.Modify, Sequence: kit.Position(i + 1), Time: enginetest.ListingsBegin, Keys: enginetest.Keyed(pk), Old: enginetest.Keyed(pk), New: enginetest.Keyed(pk)})
	}
	return all
}

// tailScene plays a script with a verifier that reads a stream by itself.
func tailScene(t *testing.T, s *tailed, script func(ctx context.Context, v *Verifier)) {
	t.Helper()
	s.reads = map[string]int{}
	err := virtual.NewWorld(1, enginetest.ListingsBegin, false).Run(time.Hour, func(ctx context.Context) {
		ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "verify", checkpoint.Options{Worker: "w", ID: "l"})
		if err != nil {
			t.Fatal(err)
		}
		rig := enginetest.NewRig(ledger, engine.Spec{Mapping: enginetest.OrdersMapping(t)})
		v := enginetest.PartOf(rig, func(of *engine.Table) *Verifier { return NewVerifier(of, nil, func() int { return 1 }, &SumSlots{}) })
		v.open = func(string) cdc.Source { return s }
		script(ctx, v)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The tail of a stream is what no worker has applied: what follows the checkpoints, and shards that
// the ledger does not know. Shards that are done count for nothing, nor do shards of another
// stream. After a trim the rest of the shard counts.
func TestWhatTheTailHolds(t *testing.T) {
	row := func(id, label string, state checkpoint.State, position int) checkpoint.Shard {
		s := checkpoint.Shard{Source: "Orders", Label: label, ID: id, State: state}
		if position > 0 {
			s.Position = kit.Position(position)
		}
		return s
	}
	for name, c := range map[string]struct {
		stream tailed
		rows   []checkpoint.Shard
		want   string
	}{
		"after its checkpoint":    {tailed{listed: []string{"s"}}, []checkpoint.Shard{row("s", "L", checkpoint.Reading, 2)}, "c d"},
		"from its beginning":      {tailed{listed: []string{"s"}}, []checkpoint.Shard{row("s", "L", checkpoint.Waiting, 0)}, "a b c d"},
		"not known to the ledger": {tailed{listed: []string{"s"}}, nil, "a b c d"},
		"not listed any more":     {tailed{}, []checkpoint.Shard{row("s", "L", checkpoint.Reading, 3)}, "d"},
		"done":                    {tailed{listed: []string{"s"}}, []checkpoint.Shard{row("s", "L", checkpoint.Done, 2)}, ""},
		"of another stream":       {tailed{listed: []string{"s"}}, []checkpoint.Shard{row("s", "L0", checkpoint.Done, 2)}, "a b c d"},
		"trimmed":                 {tailed{listed: []string{"s"}, trimmed: []string{"s"}}, []checkpoint.Shard{row("s", "L", checkpoint.Reading, 2)}, "a b c d"},
		"gone":                    {tailed{listed: []string{"s"}, gone: []string{"s"}}, []checkpoint.Shard{row("s", "L", checkpoint.Reading, 2)}, ""},
		"after empty pages":       {tailed{listed: []string{"s"}, empty: cdc.EmptyRun - 1}, nil, "a b c d"},
		"closed":                  {tailed{listed: []string{"s"}, closed: []string{"s"}}, nil, "a b c d"},
	} {
		stream := c.stream
		stream.shards = map[string][]cdc.Change{"s": changed("a", "b", "c", "d")}
		tailScene(t, &stream, func(ctx context.Context, v *Verifier) {
			names, err := v.readTail(engine.Until(ctx), checkpoint.TableState{Source: "Orders", Label: "L"}, c.rows)
			var got []string
			for _, pk := range []string{"a", "b", "c", "d", "e"} {
				item := names[maphash.String(v.tail.seed, itemName(v.mapping, enginetest.Keyed(pk)))]
				if row := names[maphash.String(v.tail.seed, rowName("orders", pk))]; row != item {
					t.Errorf("%s: item %s %v, its row %v", name, pk, item, row)
				}
				if item {
					got = append(got, pk)
				}
			}
			if strings.Join(got, " ") != c.want || err != nil {
				t.Errorf("%s: %q, %v", name, got, err)
			}
			if most := 4*cdc.EmptyRun + cdc.EmptyRun; stream.reads["s"] > most || name == "closed" && stream.reads["s"] != 5 {
				t.Errorf("%s: %d reads", name, stream.reads["s"])
			}
		})
	}
}

// A verify judges by the tail only if no worker applies it, and a read of the tail serves all rows
// that were looked at before it. The stream needs a moment to show a change.
func TestWhoReadsTheTail(t *testing.T) {
	playScene(t, "abc", func(s *scene) {
		s.Sleep(time.Minute) // its items are applied
		s.StopWorker()
		s.Must(s.Source.Put(s.Ctx, "Orders", kit.Item("b")))
		p := engine.NewWorker(&engine.Options{Ledger: s.Ledger, Floors: &engine.Floors{}, Database: s.pages, Events: engine.Events{}.OrSilent(), Timing: engine.Timing{}.OrDefault(s.Ledger.Lease())}, func(error) {})
		v := NewVerifier(engine.NewTable(p, s.spec), s.Target, func() int { return 1 }, &SumSlots{})
		reads := 0
		v.open = func(arn string) cdc.Source { reads++; return s.Source.Open(arn) }
		ask := func() func(verify.Place) bool {
			s.Helper()
			waits, err := v.unapplied(engine.Until(s.Ctx), s.Now())
			s.Must(err)
			return waits
		}
		s.Ledger.Heard(s.Ctx, s.Now())
		if ask() != nil || reads > 0 {
			t.Error("the tail is read while a worker may apply it")
		}
		s.Sleep(10 * time.Minute)
		began := s.Now()
		waits := ask()
		if took := s.Now().Sub(began); waits == nil || reads != 1 || took < tailRest {
			t.Fatalf("%d reads after %s", reads, took)
		}
		for name, c := range map[string]struct {
			place verify.Place
			want  bool
		}{
			"its row":         {verify.Place{Table: "orders", Row: "b"}, true},
			"its item":        {verify.Place{Table: "orders", Row: "elsewhere", Keys: []attribute.Item{enginetest.Keyed("a"), enginetest.Keyed("b")}}, true},
			"another row":     {verify.Place{Table: "orders", Row: "a", Keys: []attribute.Item{enginetest.Keyed("a")}}, false},
			"another table's": {verify.Place{Table: "parts", Row: "b"}, false},
		} {
			if got := waits(c.place); got != c.want {
				t.Errorf("%s: in flight %v", name, got)
			}
		}
		for before, want := range map[time.Duration]int{time.Hour: 1, 0: 2} {
			reads = 1
			_, err := v.unapplied(engine.Until(s.Ctx), s.Now().Add(-before))
			if s.Must(err); reads != want {
				t.Errorf("for rows looked at %s ago: %d reads", before, reads)
			}
		}
		v.settings.settle = time.Minute
		began = s.Now()
		if ask(); s.Now().Sub(began) < time.Minute {
			t.Errorf("an application settles within a minute, and it is read after %s", s.Now().Sub(began))
		}
		s.Change("Orders", func(state *checkpoint.TableState) { state.Apply = checkpoint.Topic })
		if ask() != nil {
			t.Error("a change that was read may wait for an applier")
		}
	})
}

// A shard that a worker has released is read by none, although its row was written just now.
func TestAReleasedShardIsReadByNone(t *testing.T) {
	playScene(t, "a", func(s *scene) {
		s.StopWorker()
		s.Sleep(10 * time.Minute)
		p := engine.NewWorker(&engine.Options{Ledger: s.Ledger, Floors: &engine.Floors{}, Database: s.pages, Events: engine.Events{}.OrSilent()}, func(error) {})
		v := NewVerifier(engine.NewTable(p, s.spec), s.Target, func() int { return 1 }, &SumSlots{})
		read := func() bool {
			shards, err := s.Ledger.Shards(s.Ctx, "Orders")
			s.Must(err)
			return v.read(s.Ctx, s.Table("Orders"), shards)
		}
		other := s.Open("other")
		watch := other.NewWatch()
		var lease *checkpoint.Lease
		for range 60 {
			shards, err := other.Shards(s.Ctx, "Orders")
			s.Must(err)
			free, _ := watch.Look(shards, s.Table("Orders"), task.Mono(s.Ctx))
			if len(free) > 0 {
				lease, err = other.Take(s.Ctx, *free[0].Shard, free[0].Parent)
				s.Must(err)
				break
			}
			s.Sleep(time.Second)
		}
		if lease == nil || !read() {
			t.Fatalf("a worker holds it: %v, read %v", lease != nil, lease != nil && read())
		}
		if s.Must(lease.Release(s.Ctx)); read() {
			t.Error("it is read after its release")
		}
	})
}

// A process that only works on verifies reads the stream itself if no worker does. Its rows with a
// change in the tail are in flight, and the other rows are judged without any worker.
func TestAProcessReadsTheTail(t *testing.T) {
	for _, opens := range []bool{true, false} {
		playScene(t, "abc", func(s *scene) {
			s.Sleep(time.Minute)
			s.StopWorker()
			s.Sleep(10 * time.Minute)
			s.Must(s.Source.Put(s.Ctx, "Orders", kit.Item("b", "total=1"))) // no worker applies it
			s.Damage("orders", "a", "d", "pk", "x")
			s.begin(verify.Live, verify.Scope{})
			s.patience = 5 * time.Minute
			o, opened := s.options(), 0
			if opens {
				o.Open = func(arn string) cdc.Source { opened++; return s.Source.Open(arn) }
			}
			began := s.Now()
			err := Run(s.Ctx, o)
			var late *verify.NotApplied
			if took := s.Now().Sub(began); !opens && !errors.As(err, &late) || opens && (err != nil || opened == 0 || took > time.Minute) {
				t.Fatalf("it opens the stream %d times, and ends after %s: %v", opened, took, err)
			}
			if r := s.Table("Orders").Verify.Result; opens && (r.Number != 2 || r.Differing() != 1 || r.InFlight != 1 || s.found() != "different a, in_flight b") {
				t.Errorf("%+v, found %s", r, s.found())
			}
		})
	}
}
