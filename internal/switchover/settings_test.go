package switchover

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
)

// Each setting of a cutover reaches its own member of the plan.
func TestEachSettingOfACutoverHasItsEffect(t *testing.T) {
	cfg := parsed(t, "cutover: { watch_for: 30h, request_expires: 40h, listing_bound: 7m, tries: 5, freeze_deadline: 11m, freeze_at_most: 50s }\n")
	p := planOf(cfg, config.Group{Name: "shop", Tables: cfg.Tables, Patterns: []string{"Shop*"}}, Request{Timeout: time.Hour}, noon)
	if p.WatchFor != 30*time.Hour || !p.Expires.Equal(noon.Add(40*time.Hour)) || p.MomentWithin != 40*time.Hour || p.ListingBound != 7*time.Minute || p.Tries != 5 ||
		p.FreezeDeadline != 11*time.Minute || p.FreezeAtMost != 50*time.Second || !p.MomentUntil.Equal(noon.Add(time.Hour)) || p.Group != "shop" || len(p.Patterns) != 1 {
		t.Errorf("%+v", p)
	}
	if p.FreezeWithin != cfg.FreezeWithin() || p.Deadlines.Freeze != p.FreezeWithin || p.Deadlines.Drain != cfg.FreezeDeadline(cfg.Tables) {
		t.Errorf("%+v", p.Deadlines)
	}
	if p := planOf(cfg, config.Group{Tables: cfg.Tables}, Request{}, noon); !p.MomentUntil.IsZero() || p.Rehearse || p.KeepFallback || p.Approved || p.WhenReady {
		t.Errorf("nothing is requested: %+v", p)
	}
}

// Everything that remains to be switched off is listed: a topic only if there is one.
func TestAllThatRemainsIsListed(t *testing.T) {
	c := checkpoint.Cutover{CutoverPlan: checkpoint.CutoverPlan{Tables: []string{"Orders", "Items"}}}
	for more, topics := range map[string]int{"": 0, "relay: { pubsub_topic: projects/p/topics/changes }\n": 1} {
		list := (&Operator{Cfg: parsed(t, more)}).switchOff(c)
		text := strings.Join(list, "\n")
		for _, what := range []string{"workers", "stream of table Orders", "stream of table Items", "table Orders of DynamoDB", "table Items of DynamoDB", "role and policy", "hooks", "state table"} {
			if strings.Count(text, what) == 0 {
				t.Errorf("%q is missing in\n%s", what, text)
			}
		}
		if len(list) != 7+topics || strings.Count(text, "topic ") != topics {
			t.Errorf("%d lines\n%s", len(list), text)
		}
	}
}

// A line about an attempt stands only where its fact is known.
func TestLinesOfAnAttemptStandWhereTheyAreTrue(t *testing.T) {
	step := checkpoint.CutoverWatching
	at := noon.Add(-time.Minute)
	for name, c := range map[string]struct {
		change func(d *Document)
		want   string
		lines  int
	}{
		"nothing more":     {func(*Document) {}, "cutover, attempt 3: watching\n", 1},
		"a rehearsal":      {func(d *Document) { d.Rehearse = true }, "rehearsal, attempt 3", 1},
		"its step's time":  {func(d *Document) { d.StepAt = &at }, "watching, for 1m", 1},
		"a freeze":         {func(d *Document) { d.FrozenSeconds = 9 }, "frozen for 9", 1},
		"a freeze to come": {func(d *Document) { d.WouldFreeze = 8 }, "about 8", 1},
		"tries":            {func(d *Document) { d.GivenUp, d.Tries = []checkpoint.CutoverTry{{Reason: "busy"}}, 4 }, "try 1 of 4", 2},
		"idle workers":     {func(d *Document) { d.Idle = 2 }, "idle: 2 workers", 2},
		"late writers":     {func(d *Document) { d.WatchUntil = &at }, "until 2", 2},
	} {
		d := &Document{At: noon, Attempt: 3, Step: string(step)}
		c.change(d)
		var b strings.Builder
		d.writeAttempt(&b, false)
		if !strings.Contains(b.String(), c.want) || strings.Count(b.String(), "\n") != c.lines {
			t.Errorf("%s: %q", name, b.String())
		}
	}
}

// The clients of both databases reach a driver, each as what it is, and none without its database.
func TestTheEndsOfADriver(t *testing.T) {
	cfg := parsed(t, "")
	if e := EndsOf(cfg, nil, nil, nil, "v1"); e.Source != nil || e.Target != nil || e.Cluster != nil || e.Version != "v1" || e.Cfg != cfg {
		t.Errorf("%+v", e)
	}
	if e := EndsOf(cfg, nil, &preflight.Source{}, &preflight.Target{}, ""); e.Source == nil || e.Target == nil || e.Cluster == nil {
		t.Errorf("%+v", e)
	}
}

// A table that only the ledger knows refuses a cutover. If the ledger cannot be read, that is no
// answer.
func TestTablesThatOnlyTheLedgerKnows(t *testing.T) {
	store := &checkpointtest.Memory{}
	l, err := checkpoint.Open(t.Context(), store, "p", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	cfg := parsed(t, "")
	for _, c := range []struct {
		source     string
		generation uint32
		refused    bool
	}{{"Orders", 1, false}, {"Named", 0, false}, {"Returns", 1, true}} {
		if _, err := l.UpdateTable(t.Context(), c.source, func(s *checkpoint.TableState) error { s.Generation, s.MappingHash = c.generation, "h"; return nil }); err != nil {
			t.Fatal(err)
		}
		if err := unknown(t.Context(), l, cfg.Tables); (err != nil) != c.refused || err != nil && (!strings.Contains(err.Error(), "Returns") || strings.Contains(err.Error(), "Orders")) {
			t.Errorf("with %s: %v", c.source, err)
		}
	}
	away := errors.New("away")
	store.OnRead = func(context.Context, string) error { return away }
	if err := unknown(t.Context(), l, cfg.Tables); !errors.Is(err, away) {
		t.Errorf("without the ledger: %v", err)
	}
}
