package repair

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// A repair of many items ends when another mapping begins.
func TestRepairEndsWithTheMapping(t *testing.T) {
	ledger, err := checkpoint.Open(t.Context(), &checkpointtest.Memory{}, "default", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		hash string
		done bool // the cutover is complete
		want error
	}{{"former", false, nil}, {"other", false, checkpoint.ErrMappingChanged}, {"former", true, checkpoint.ErrHalted}} {
		state, err := ledger.UpdateTable(t.Context(), "Orders", func(s *checkpoint.TableState) error {
			s.MappingHash, s.Generation, s.Halt.Done = c.hash, s.Generation+1, c.done
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if now, err := underMapping(t.Context(), ledger, "Orders", "former"); now.Generation != state.Generation || !errors.Is(err, c.want) {
			t.Errorf("under %s: generation %d, %v", c.hash, now.Generation, err)
		}
	}
}

// asked returns the generations that a repair reads from the ledger of a table, and a function that
// sets the table's generations and mapping.
func asked(t *testing.T) (generations, func(generation, adopted uint32, mapping string)) {
	t.Helper()
	ledger, err := checkpoint.Open(t.Context(), &checkpointtest.Memory{}, "default", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	note := func(generation, adopted uint32, mapping string) {
		if _, err := ledger.UpdateTable(t.Context(), "Orders", func(s *checkpoint.TableState) error {
			s.StreamARN, s.Label, s.MappingHash, s.Generation, s.Adopted, s.Listed = "arn", "L", mapping, generation, adopted, generation
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return generations{ledger: ledger, table: "Orders", mapping: "hash"}, note
}

// A row without a version is repaired in a generation only if the generation will apply every
// change from after the item's read.
func TestARepairWaitsForTheGeneration(t *testing.T) {
	ask, note := asked(t)
	note(7, 6, "hash")
	var unready *checkpoint.NotAdmissible
	if _, err := ask.admissible(t.Context(), time.Now()); !errors.As(err, &unready) || !diag.Has(Failed(t.Context(), "cannot", "Orders", err), diag.RetryNotYet) {
		t.Error(err)
	}
	note(7, 7, "hash")
	if generation, err := ask.admissible(t.Context(), time.Now()); generation != 7 || err != nil {
		t.Error(generation, err)
	}
}

// A repair of many items takes hours, so it reads the ledger for each of them.
func TestARepairNoticesWhatBecomesOfTheTable(t *testing.T) {
	ask, note := asked(t)
	for _, generation := range []uint32{7, 9} {
		note(generation, generation, "hash")
		if got, err := ask.current(t.Context()); got != generation || err != nil {
			t.Errorf("generation %d is given as %d, %v", generation, got, err)
		}
	}
	note(9, 9, "another")
	if _, err := ask.current(t.Context()); !errors.Is(err, checkpoint.ErrMappingChanged) {
		t.Errorf("under another mapping: %v", err)
	}
}

// A fast load that begins during a repair ends it before the next item. A repair would keep cells
// that the load's sweep deletes.
func TestH146_ARepairEndsWhenAFastLoadBegins(t *testing.T) {
	ask, note := asked(t)
	note(7, 7, "hash")
	for _, fast := range []bool{false, true} {
		if _, err := ask.ledger.UpdateTable(t.Context(), "Orders", func(s *checkpoint.TableState) error {
			s.Load = checkpoint.Load{Generation: 7, Number: 1, Parts: 1, Fast: fast}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		_, err := ask.current(t.Context())
		if (err != nil) != fast || fast && !diag.Has(Failed(t.Context(), "cannot", "Orders", err), diag.RetryNotYet) {
			t.Errorf("fast %t: %v", fast, err)
		}
	}
}

// If the app profile is rerouted between two retries, the second one notices that.
func TestH46_ARepairAsksForTheClusterAnew(t *testing.T) {
	ask, _ := asked(t)
	to := ""
	profile := func(context.Context) (string, error) {
		if to == "" {
			return "", &sink.ProfileError{Problem: sink.MissingProfile}
		}
		return to, nil
	}
	if err := preflight.SameCluster(t.Context(), ask.ledger, profile); err != nil {
		t.Errorf("before the ledger knows a cluster: %v", err)
	}
	if err := ask.ledger.CheckCluster(t.Context(), "c1"); err != nil {
		t.Fatal(err)
	}
	for _, to = range []string{"c1", "c2"} {
		if err := preflight.SameCluster(t.Context(), ask.ledger, profile); (err == nil) != (to == "c1") || err != nil && !errors.Is(err, checkpoint.ErrClusterChanged) {
			t.Errorf("a repair into %s: %v", to, err)
		}
	}
	to = ""
	var gone *sink.ProfileError
	if err := preflight.SameCluster(t.Context(), ask.ledger, profile); !errors.As(err, &gone) {
		t.Errorf("a repair by a profile that is gone, which may lead anywhere: %v", err)
	}
}

// ends are the source and the target for a repair of Orders.
type ends struct {
	*sinktest.Memory
	ledger      checkpointtest.Memory
	cluster     string
	description backfill.Description
	items       int
}

func (e *ends) Ledger(string) checkpoint.Store { return &e.ledger }

func (e *ends) Cluster(context.Context) (string, error) { return e.cluster, nil }

func (e *ends) Describe(context.Context, string) (backfill.Description, error) {
	return e.description, nil
}

func (e *ends) Get(_ context.Context, table string, _ attribute.Item) (attribute.Item, bool, error) {
	if table == "Orders" {
		e.items++
	}
	return attribute.Item{}, false, nil
}

const streamOf = "arn:aws:dynamodb:eu-west-1:1:table/Orders/stream/L"

// Of refuses to repair rows that this configuration must not write. Its repairer reads the ledger
// for each item, knows the owner of the rows, and uses the source's time.
func TestOf(t *testing.T) {
	cfg, err := config.Parse("r.yaml", []byte("version: 1\ntarget: { project: p, instance: i }\ntables: [{ from: Orders, to: orders, families: { d: maxversions=1 } }]\ndual_writes: { settle: 10m }\n"),
		func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(s *checkpoint.TableState)
		ends   func(e *ends)
		code   string // of the refusal
		owned  bool
		// configured: the configuration says that replicator owns all rows.
		configured bool
	}{
		"as it should be":         {},
		"a source without a time": {ends: func(e *ends) { e.description.At = time.Time{} }},
		"rows of ours, it says":   {configured: true, owned: true},
		"a table that we made":    {change: func(s *checkpoint.TableState) { s.MadeByUs = true }}, // others may have written it since
		"another mapping":         {change: func(s *checkpoint.TableState) { s.MappingHash = "other" }, code: diag.MappingChanged},
		"another cluster":         {ends: func(e *ends) { e.cluster = "two" }, code: diag.ClusterChanged},
		"another account":         {ends: func(e *ends) { e.description.StreamARN = "arn:aws:dynamodb:eu-west-1:2:table/Orders/stream/L" }, code: diag.SourceMoved},
		"a ledger that fails":     {ends: func(e *ends) { e.ledger.OnRead = func(context.Context, string) error { return errors.New("away") } }, code: diag.TargetUnreachable},
	} {
		synctest.Test(t, func(t *testing.T) {
			table := cfg.Tables[0]
			table.Owned = c.configured
			e := &ends{Memory: &sinktest.Memory{}, cluster: "one", description: backfill.Description{Name: "Orders", StreamARN: streamOf, At: time.Unix(1_795_170_000, 0),
				PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}}}
			ledger, err := checkpoint.Open(t.Context(), &e.ledger, cfg.Name, checkpoint.Options{Worker: "w", ID: "l"})
			if err != nil {
				t.Fatal(err)
			}
			note := func(change func(s *checkpoint.TableState)) {
				t.Helper()
				if _, err := ledger.UpdateTable(t.Context(), "Orders", func(s *checkpoint.TableState) error { change(s); return nil }); err != nil {
					t.Fatal(err)
				}
			}
			note(func(s *checkpoint.TableState) {
				s.StreamARN, s.Label, s.MappingHash, s.Generation, s.Adopted, s.Listed = streamOf, "L", cfg.Hash(table), 7, 7, 7
			})
			if err := ledger.CheckCluster(t.Context(), "one"); err != nil {
				t.Fatal(err)
			}
			if c.change != nil {
				note(c.change)
			}
			if c.ends != nil {
				c.ends(e)
			}
			r, err := Of(t.Context(), cfg, table, e, e, "cannot repair")
			if c.code != "" {
				if !diag.Has(err, c.code) || !strings.Contains(err.Error(), "cannot repair") {
					t.Errorf("%s: %v", name, err)
				}
				return
			}
			if err != nil || r.Owned != c.owned || r.Mapping.Source != "Orders" {
				t.Fatalf("%s: %+v, %v", name, r, err)
			}
			time.Sleep(time.Minute)
			at := time.Unix(1_795_170_060, 0)
			if e.description.At.IsZero() {
				at = time.Now()
			}
			if now := r.Now(t.Context()); !now.Equal(at) {
				t.Errorf("%s: it is %s, not %s", name, now, at)
			}
			if r.Had == nil || !r.Had(7) || r.Had(6) {
				t.Errorf("%s: generations of other migrations are not told apart", name)
			}
			if _, _, err := r.Item(t.Context(), attribute.Item{}); err != nil || e.items != 1 {
				t.Errorf("%d items are read, %v", e.items, err)
			}
			right := func(context.Context) error { return nil }
			if _, err := r.Prove(t.Context(), []string{"orders"}, right); !errors.Is(err, sink.ErrNoFence) {
				t.Error(err)
			}
			note(func(s *checkpoint.TableState) {
				s.Generation, s.Adopted, s.AdoptedAt, s.Former = 9, 9, time.Now(), []checkpoint.Former{{Text: r.Mapping.Describe()}, {Text: "unreadable"}, {Text: r.Mapping.Describe()}}
			})
			if n, err := r.Current(t.Context()); n != 9 || err != nil {
				t.Errorf("generation %d, %v", n, err)
			}
			if former, err := r.Former(t.Context()); err != nil || len(former) != 2 || former[0].Mapping.Source != "Orders" {
				t.Errorf("%+v, %v", former, err)
			}
			var unready *checkpoint.NotAdmissible
			// The application may still write older changes.
			if _, err := r.Generation(t.Context(), time.Now().Add(5*time.Minute)); !errors.As(err, &unready) {
				t.Errorf("within its delay: %v", err)
			}
			if n, err := r.Generation(t.Context(), time.Now().Add(15*time.Minute)); err != nil || n != 9 {
				t.Errorf("generation %d, %v", n, err)
			}
			away := errors.New("away")
			e.ledger.OnRead = func(context.Context, string) error { return away }
			_, current := r.Current(t.Context())
			_, former := r.Former(t.Context())
			_, generation := r.Generation(t.Context(), time.Now())
			if !errors.Is(current, away) || !errors.Is(former, away) || !errors.Is(generation, away) {
				t.Errorf("a ledger that is away: %v, %v, %v", current, former, generation)
			}
		})
	}
}

// The error says what to do: wait, start a worker, or fix the source or the target.
func TestWhatStopsARepair(t *testing.T) {
	for _, c := range []struct {
		err  error
		code string
	}{
		{&checkpoint.NotAdmissible{}, diag.RetryNotYet}, {sink.ErrNoFence, diag.RetryNotYet},
		{&cdc.Error{Op: "GetItem", Reason: cdc.NotFound}, diag.SourceNotFound}, {&cdc.Error{Op: "GetItem", Reason: cdc.Denied}, diag.SourceDenied},
		{&cdc.Error{Op: "GetItem", Reason: cdc.Throttled}, diag.SourceUnreachable}, {&cdc.Error{Op: "GetItem", Reason: cdc.Unavailable}, diag.SourceUnreachable},
		{&sink.Error{Op: "ReadRows", Reason: sink.Unknown, Code: "Unavailable"}, diag.TargetUnreachable},
	} {
		if err := Failed(t.Context(), "cannot", "Orders", c.err); !diag.Has(err, c.code) || !errors.Is(err, c.err) || !strings.Contains(err.Error(), "cannot") {
			t.Errorf("%v: %v", c.err, err)
		}
	}
}
