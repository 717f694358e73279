package switchover

import (
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// A cutover compares a table with the table's own settings: how late its changes are written, and
// whether all rows of its targets are the migration's.
func TestAComparisonHasTheSettingsOfItsTable(t *testing.T) {
	playScene(t, func(s *scene) {
		var err error
		s.Config, err = config.Parse("replicator.yaml", []byte("version: 1\ntarget: { project: p, instance: i }\ndual_writes: { settle: 1m }\n"+
			"tables: [{ from: Orders, to: orders, owned: true }, { from: Parts, to: parts, dual_writes: off }]\n"), func(string) (string, bool) { return "", false })
		s.Must(err)
		v := verifier{Ends{Cfg: s.Config, Ledger: s.Ledger, Source: s.Source, Target: s.Target}}
		for i, late := range []time.Duration{time.Minute, 0} {
			c := s.Config.Tables[i]
			b, err := v.beginning(s.Ctx, checkpoint.TableState{Source: c.From, MappingHash: s.Config.Hash(c)})
			if s.Source.Count = int64(7 + i); err == nil {
				b, err = v.beginning(s.Ctx, checkpoint.TableState{Source: c.From, MappingHash: s.Config.Hash(c)})
			}
			if err != nil || b.Items != s.Source.Count || b.Bytes != 100*s.Source.Count || b.Ledger != v.Ledger || b.Mapping == nil {
				t.Errorf("%s: %d items, %d bytes, %v", c.From, b.Items, b.Bytes, err)
			}
			if err != nil || b.Late != late || b.Owned != (i == 0) || b.Hash != s.Config.Hash(c) {
				t.Errorf("%s: settles for %s, owned: %t, %v", c.From, b.Late, b.Owned, err)
			}
			if _, err := v.beginning(s.Ctx, checkpoint.TableState{Source: c.From, MappingHash: "another"}); !errors.Is(err, checkpoint.ErrMappingChanged) {
				t.Errorf("%s under another mapping: %v", c.From, err)
			}
		}
	})
}

// Before numbers of the fence are dropped, the witness of each table whose application ranks its
// writes names the ones that hold. Of other tables, and in tables that it does not write, there is
// nothing to say.
func TestAWitnessNamesTheNumberThatHolds(t *testing.T) {
	for way, want := range map[string]bool{"dual_writes: { version_attribute: n }\n": true, "dual_writes: { settle: 1m }\n": false, "": false} {
		playScene(t, func(s *scene) {
			s.Config = parsed(t, way)
			e := Ends{Cfg: s.Config, Ledger: s.Ledger, Source: s.Source, Target: s.Target}
			source := s.Config.Tables[0].From
			s.Change(source, func(st *checkpoint.TableState) { st.Targets = []string{"orders", "parts"} })
			if want {
				defer func() { // the witness is gone, so the target was exchanged
					s.Target.WitnessStore("parts").(*checkpointtest.Memory).Clear()
					if err := e.announce(s.Ctx, source, "parts"); err == nil || err.Error() != "the witness of table "+source+" in parts was changed by another program" {
						t.Errorf("%s: after a loss of the target: %v", way, err)
					}
				}()
			}
			for _, target := range []string{"orders", "parts", "elsewhere"} {
				s.Must(e.announce(s.Ctx, source, target))
				w, found, err := checkpoint.ReadWitness(s.Ctx, checkpoint.Place{Store: s.Target.WitnessStore(target), Key: transform.WitnessKeyOf(source)})
				if mark, _ := fence.Marks(s.Ledger)(s.Ctx, target); err != nil || found != (want && target != "elsewhere") || found && w.Fence != mark.Family {
					t.Errorf("%s%s: found %t, %q, %v", way, target, found, w.Fence, err)
				}
				state := s.Table(source) // of the first target it has another member
				if beats := map[string]uint64{"orders": state.WitnessBeat, "parts": state.WitnessBeats["parts"]}; found && beats[target] != w.Beat || state.WitnessBeats["orders"] != 0 {
					t.Errorf("%s%s: the witness has beat %d, the ledger %d and %v", way, target, w.Beat, state.WitnessBeat, state.WitnessBeats)
				}
			}
		})
	}
}
