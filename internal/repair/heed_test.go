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
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// A repair looks for cutovers from its begin until it leaves, and more often while a cutover asks
// writers to stop. The time limit of its first reads does not end that.
func TestH145_ARepairHeedsCutoversUntilItLeaves(t *testing.T) {
	cfg, err := config.Parse("r.yaml", []byte("version: 1\ntarget: { project: p, instance: i }\ntables: [{ from: Orders, to: orders }]\n"), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		e := &ends{Memory: &sinktest.Memory{}, cluster: "one", description: backfill.Description{Name: "Orders", StreamARN: streamOf, At: time.Now(), PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}}}
		ledger, err := checkpoint.Open(t.Context(), &e.ledger, cfg.Name, checkpoint.Options{Worker: "w", ID: "l"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ledger.UpdateTable(t.Context(), "Orders", func(s *checkpoint.TableState) error {
			s.StreamARN, s.Label, s.MappingHash, s.Generation, s.Adopted, s.Listed = streamOf, "L", cfg.Hash(cfg.Tables[0]), 7, 7, 7
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		r, err := Of(t.Context(), cfg, cfg.Tables[0], e, e, "cannot repair")
		if err != nil {
			t.Fatal(err)
		}
		looks := 0
		e.ledger.OnRead = func(_ context.Context, prefix string) error {
			if strings.Contains(prefix, "cutover") {
				looks++
			}
			return nil
		}
		within := func(d time.Duration) int {
			looks = 0
			time.Sleep(d)
			synctest.Wait()
			return looks
		}
		if n := within(10 * time.Minute); n < 295 || n > 305 {
			t.Errorf("%d looks in ten minutes", n)
		}
		if _, err := ledger.UpdateCutover(t.Context(), "", func(c *checkpoint.Cutover) error {
			c.Attempt, c.Step = 1, checkpoint.CutoverFreeze
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		within(2 * time.Second)
		if n := within(time.Minute); n < 235 || n > 245 {
			t.Errorf("%d looks in a minute of a freeze", n)
		}
		r.Leave(t.Context())
		if n := within(time.Minute); n != 0 {
			t.Errorf("%d looks after it left", n)
		}
	})
}

// Without a change of the wait, a step is repeated as often as allowed, and its last error is
// returned. A request that ended is not repeated.
func TestAgainReturnsTheLastError(t *testing.T) {
	unavailable := &sink.Error{Op: "MutateRow", Reason: sink.Unknown, Code: "Unavailable"}
	synctest.Test(t, func(t *testing.T) {
		ended, end := context.WithCancel(t.Context())
		end()
		for name, c := range map[string]struct {
			ctx   context.Context
			fails int
			calls int
		}{"at once": {t.Context(), 0, 1}, "twice": {t.Context(), 2, 3}, "for ever": {t.Context(), 99, tries}, "an ended request": {ended, 99, 1}} {
			calls := 0
			err := again(c.ctx, func(context.Context) error {
				if calls++; calls <= c.fails {
					return unavailable
				}
				return nil
			})
			if calls != c.calls || (err != nil) != (c.fails >= calls) || err != nil && !errors.Is(err, unavailable) {
				t.Errorf("%s: %d calls, %v", name, calls, err)
			}
		}
	})
}

// A generation is admissible only once each root of the table's stream was read from its beginning.
// Shards of other tables do not matter.
func TestAGenerationIsAdmissibleOnceItsShardsAreRead(t *testing.T) {
	ask, note := asked(t)
	note(7, 7, "hash")
	at := time.Now()
	for _, c := range []struct {
		source string
		ready  bool
	}{{"Parts", true}, {"Orders", false}} {
		if err := ask.ledger.CreateShard(t.Context(), checkpoint.Shard{Source: c.source, Label: "L", ID: "root", State: checkpoint.Reading, Hop: cdc.RootHop, Generation: 7}); err != nil {
			t.Fatal(err)
		}
		_, err := ask.admissible(t.Context(), at)
		var unready *checkpoint.NotAdmissible
		if errors.As(err, &unready) == c.ready || c.ready && err != nil {
			t.Errorf("with a shard of %s: %v", c.source, err)
		}
	}
}

// A finding that was not reached has no outcome: it is counted apart, and is not among the rows
// that are left.
func TestAFindingThatWasNotReached(t *testing.T) {
	r := &sink.Repairer{Mapping: newShop(t).Mapping}
	d := document(r, []verify.Finding{{Row: "a"}, {Row: "b"}, {Row: "c"}}, []sink.Outcome{"", sink.Mended, sink.Foreign})
	if d.NotReached != 1 || d.Repaired != 1 || d.Findings != 3 || len(d.Outcomes) != 2 || len(d.Left) != 1 {
		t.Errorf("%+v", d)
	}
}
