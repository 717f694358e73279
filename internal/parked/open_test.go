package parked

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/kit"
	"github.com/dynamodb-bigtable/replicator/test/kit/opened"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// closing counts how often the target is closed.
type closing struct {
	desk.Target
	closed *int
}

func (c closing) Close() error { *c.closed++; return c.Target.Close() }

// A decision concerns the parked records of the migration and of the named table, and may read its
// source. The connections stay open until the decision, and are then closed. If nothing is parked,
// only JSON output comes from the decision itself.
func TestDecide(t *testing.T) {
	failed := errors.New("failed")
	for name, c := range map[string]struct {
		s      Selection
		output string
		act    error
		chosen int // -1: no decision
		code   string
	}{
		"all":                   {s: Selection{All: true}, chosen: 3},
		"of a table":            {s: Selection{All: true, Table: "Parts"}, chosen: 1},
		"it fails":              {s: Selection{All: true}, act: failed, chosen: 3},
		"of nothing":            {s: Selection{Reason: "none"}, chosen: -1},
		"of nothing, in JSON":   {s: Selection{Reason: "none"}, output: "json"},
		"of an unknown table":   {s: Selection{All: true, Table: "None"}, chosen: -1, code: diag.Usage},
		"of what is not parked": {s: Selection{Refs: []string{"01234567"}}, chosen: -1, code: diag.Usage},
	} {
		kit.Play(t, kit.Parse(t, ""), func(m *kit.Migration) {
			lot := sink.NewParking(m.Target.Records(""), m.Config.Name)
			for i, table := range []string{"Orders", "Orders", "Parts"} {
				keys := kit.Item(string(rune('a' + i)))
				change := cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(uint64(i + 1)), Time: m.Now(), Keys: keys, New: keys}
				m.Must(lot.Park(m.Ctx, transform.Parked{Source: table, Key: "S:" + string(rune('a'+i)), Reason: "r", Change: change,
					Version: transform.NewVersion(1, 1, change.Sequence, transform.CountExact)}))
			}
			closed, opens := 0, opened.By(m)
			ends := opens
			ends.Target = func(ctx context.Context, cfg *config.Config) (desk.Target, error) {
				target, err := opens.Target(ctx, cfg)
				return closing{target, &closed}, err
			}
			var out bytes.Buffer
			d := &Decision{Console: &terminal.Console{Stdout: &out, Stderr: io.Discard, Output: c.output, Env: func(string) (string, bool) { return "", false }},
				Cfg: m.Config, Ends: ends, Log: slog.New(slog.DiscardHandler)}
			chosen := -1
			err := d.Decide(m.Ctx, RetryCommand, &c.s, func(d *Decision, ctx context.Context) error {
				chosen = len(d.Chosen)
				source, err := d.Connect(ctx)
				m.Must(err)
				if found, err := source.Describe(ctx, "Orders"); err != nil || found.Name != "Orders" || d.Target == nil || closed > 0 || ctx.Err() != nil {
					t.Errorf("%s: %+v, %v, closed %d times", name, found, err, closed)
				}
				if n, err := d.Lot.CountOf(ctx, "Orders"); n != 2 || err != nil {
					t.Errorf("%s: %d are parked, %v", name, n, err)
				}
				return c.act
			})
			if chosen != c.chosen || c.act != nil && !errors.Is(err, c.act) || (err == nil) != (c.act == nil && c.code == "") || c.code != "" && !diag.Has(err, c.code) {
				t.Errorf("%s: of %d, %v", name, chosen, err)
			}
			if (out.Len() > 0) != (name == "of nothing") || name == "of nothing" && !strings.Contains(out.String(), "no item is parked") || closed != 1 && name != "of an unknown table" {
				t.Errorf("%s: %q, closed %d times", name, &out, closed)
			}
		})
	}
}

// An interrupted command reports the interruption, not the failures that it caused. An independent
// failure is still reported.
func TestADecisionThatIsInterrupted(t *testing.T) {
	for _, interrupted := range []bool{true, false} {
		kit.Play(t, kit.Parse(t, ""), func(m *kit.Migration) {
			ctx, stop := context.WithCancelCause(m.Ctx)
			defer stop(nil)
			why, failed := errors.New("interrupted"), errors.New("failed")
			d := &Decision{Console: &terminal.Console{Stdout: io.Discard, Stderr: io.Discard, Output: "json", Env: func(string) (string, bool) { return "", false }},
				Cfg: m.Config, Ends: opened.By(m), Log: slog.New(slog.DiscardHandler)}
			err := d.Decide(ctx, DropCommand, &Selection{All: true}, func(*Decision, context.Context) error {
				if interrupted {
					stop(why)
				}
				return failed
			})
			if errors.Is(err, why) != interrupted || errors.Is(err, failed) == interrupted {
				t.Errorf("interrupted %t: %v", interrupted, err)
			}
		})
	}
}
