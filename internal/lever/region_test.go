package lever

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// replica is the source in region eu-west-1.
type replica struct{ desk.Source }

func (replica) Describe(_ context.Context, table string) (backfill.Description, error) {
	if strings.HasPrefix(table, "only-here") {
		return backfill.Description{}, &cdc.Error{Op: "DescribeTable", Reason: cdc.NotFound}
	}
	const arn = "arn:aws:dynamodb:eu-west-1:111122223333:table/"
	return backfill.Description{Name: table, ARN: arn + table, Status: "ACTIVE", PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}, StreamARN: arn + table + "/stream/M",
		StreamLabel: "M", StreamEnabled: true, ViewType: "NEW_AND_OLD_IMAGES", Replicas: []string{"us-east-1"}}, nil
}

// The source is opened in the region of the flag, whatever the configuration says. Text, document
// and question name both regions and what comes next.
func TestTheSourceMovesToAnotherRegion(t *testing.T) {
	play(t, func(ctx context.Context, s *scene) {
		_, err := s.ledger.UpdateTable(ctx, "Orders", func(state *checkpoint.TableState) error {
			state.StreamARN, state.Label = "arn:aws:dynamodb:us-east-1:111122223333:table/Orders/stream/L", "L"
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var region, asked string
		move := func(output string, dry bool) error {
			ends := s.ends()
			ends.Source = func(_ context.Context, cfg *config.Config) (desk.Source, error) {
				region = cfg.Source.Region
				return replica{}, nil
			}
			o := &Failover{Console: s.console(output), Cfg: s.cfg, With: " -c f", SourceRegion: "eu-west-1", DryRun: dry, Ends: ends,
				Confirm: func(_ context.Context, question string) error { asked = question; return nil }}
			return o.Run(ctx)
		}
		if err := move("", true); err != nil || region != "eu-west-1" || asked != "" || s.state(ctx).Label != "L" ||
			s.out.String() != "the source would be read in region eu-west-1 instead of us-east-1; 1 table must be loaded again\n" {
			t.Errorf("%q in %s, asked %q, %v", &s.out, region, asked, err)
		}
		if err := move("", false); err != nil || !strings.Contains(asked, "in region eu-west-1") || s.state(ctx).Label != "M" ||
			!strings.Contains(s.out.String(), "source.region: eu-west-1") || !strings.Contains(s.out.String(), "replicator backfill start --repair-gap -c f") {
			t.Errorf("%q, asked %q, %v", &s.out, asked, err)
		}
		var d FailedOver
		if err := move("json", false); err != nil {
			t.Fatal(err)
		}
		if s.document(&d); d.Moves != movesSource || d.Outcome != "loads" || d.To != "eu-west-1" || d.FrozenPolicies == nil {
			t.Errorf("%+v", d)
		}
	})
}

// After an interrupted failover and after a cancelled freeze by policy, the text says what is left.
func TestWhatIsSaidOfAnotherRegion(t *testing.T) {
	for want, d := range map[string]FailedOver{
		"the source is read in region b; 2 tables must be loaded again": {Moves: movesSource, To: "b", Outcome: "loads", Loads: []string{"A", "B"}},
		"nothing to do: no table is read in another region than b\n":    {Moves: movesSource, To: "b", Outcome: "nothing"},
		"not replicated there; the rows stay: C, D\n":                   {Moves: movesSource, To: "b", Outcome: "nothing", MissingTables: []string{"C", "D"}},
		"resource policies in region a may still deny writes to T":      {Moves: movesSource, From: "a", To: "b", Outcome: "loads", FrozenPolicies: []string{"T"}},
	} {
		var text strings.Builder
		if err := d.render(&text, ""); err != nil || !strings.Contains(text.String(), want) {
			t.Errorf("%q instead of %q, %v", text.String(), want, err)
		}
	}
}

// A table of a pattern that the other region does not have keeps no other table from moving. It is
// named, unless it was dropped before. A table that the configuration names must be there.
func TestATableIsMissingInTheOtherRegion(t *testing.T) {
	const pattern = `{from: "only-here-{n}", to: only, families: {r: maxversions=1}, rules: [{name: r, row_key: "{$n}#{pk}", columns: {"*": r}}]}`
	for name, c := range map[string]struct{ entry, gone, out, refused string }{
		"of a pattern":         {pattern, "", "1 table must be loaded again\nnot in region eu-west-1, and not replicated there; the rows stay: only-here-1\n", ""},
		"dropped long ago":     {pattern, standing.Gone, "1 table must be loaded again\n", ""},
		"in the configuration": {"{from: only-here-1}", "", "", "remove the table from the configuration"},
	} {
		play(t, func(ctx context.Context, s *scene) {
			cfg, err := config.Parse("f", []byte("version: 1\nname: test\ntarget: {project: p, instance: i}\ntables: [{from: Orders}, "+c.entry+"]\n"), s.console("").Env)
			if err != nil {
				t.Fatal(err)
			}
			for _, table := range []string{"Orders", "only-here-1"} {
				_, err := s.ledger.UpdateTable(ctx, table, func(state *checkpoint.TableState) error {
					state.Generation, state.StreamARN, state.Label = 7, "arn:aws:dynamodb:us-east-1:111122223333:table/"+table+"/stream/L", "L"
					if table != "Orders" {
						state.Suspended.Reason = c.gone
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			ends := s.ends()
			ends.Source = func(context.Context, *config.Config) (desk.Source, error) { return replica{}, nil }
			err = (&Failover{Console: s.console(""), Cfg: cfg, SourceRegion: "eu-west-1", Yes: true, Ends: ends}).Run(ctx)
			if c.refused != "" {
				var e *diag.Error
				if !errors.As(err, &e) || e.Code != diag.SourceNotFound || !strings.Contains(e.Fix, c.refused) || s.state(ctx).Label != "L" {
					t.Errorf("%s: %v", name, err)
				}
				return
			}
			text, _, _ := strings.Cut(s.out.String(), "set source.region")
			if err != nil || !strings.HasSuffix(text, c.out) || s.state(ctx).Label != "M" {
				t.Errorf("%s: %q, %v", name, &s.out, err)
			}
		})
	}
}
