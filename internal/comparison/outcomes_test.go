package comparison

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
	"github.com/dynamodb-bigtable/replicator/test/kit"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// A row without a version is extra in a table that nothing else writes, and foreign elsewhere. So
// it is in every kind of comparison.
func TestWhoOwnsARow(t *testing.T) {
	for _, owned := range []bool{false, true} {
		playScene(t, func(s *scene) {
			s.Damage("orders", "z", "d", "total", "x")
			s.Config.Tables[0].Owned = owned
			want := [2]int64{0, 1}
			if owned {
				want = [2]int64{1, 0}
			}
			d, code := s.begin(nil)
			if r := d.Tables[0].Result; code != diag.RowsDiffer || [2]int64{r.Extra, r.Foreign} != want {
				t.Errorf("owned %v: %q, %+v", owned, code, r)
			}
			b := Beginning{Ledger: s.Ledger, Source: s.Source, Target: s.Target, Mapping: enginetest.OrdersMapping(t), Hash: "h", Items: 10, Bytes: 1000, Owned: owned, Late: time.Minute}
			r, err := b.Compare(s.Ctx, s.Table("Orders"))
			s.Must(err)
			if [2]int64{r.Extra, r.Foreign} != want || r.Generation != s.Table("Orders").Generation || r.Items != 10 || r.Rows != 11 {
				t.Errorf("owned %v, frozen: %+v", owned, r)
			}
			if o := b.options(); o.Table.Owned != owned || o.Table.Late != time.Minute || o.Table.MappingHash != "h" {
				t.Errorf("%+v", o.Table)
			}
		})
	}
}

// segmented records the number of segments of scans.
type segmented struct {
	*kit.Source
	total *int
}

func (c segmented) Scan(ctx context.Context, table string, segment, total int, after attribute.Item, limit int) (backfill.ScanPage, error) {
	*c.total = total
	return c.Source.Scan(ctx, table, segment, total, after, limit)
}

// A sample reads one of four items of each segment, and its result is of the table's generation.
func TestASampleFollowsTheItems(t *testing.T) {
	playScene(t, func(s *scene) {
		total := 0
		b := Beginning{Ledger: s.Ledger, Source: segmented{s.Source, &total}, Target: s.Target, Mapping: enginetest.OrdersMapping(t), Hash: "h", Items: 40, Bytes: 4_000_000}
		r, err := b.SampleItems(s.Ctx, s.Table("Orders"), 5)
		s.Must(err)
		if total != 10 || r.Generation != s.Table("Orders").Generation || !r.Clean() || r.Compared != r.Items {
			t.Errorf("%d segments, %+v", total, r)
		}
	})
}

// A beginning counts changes only if the table may be busy: it had a change within a minute, and
// the verify would take long. The plan has parts by the bytes of the table.
func TestWhenABeginningCountsChanges(t *testing.T) {
	for name, c := range map[string]struct {
		ago   time.Duration
		items int64
		took  time.Duration
	}{
		"a recent change":   {59 * time.Second, 600_000, 2 * countFor},
		"an earlier change": {61 * time.Second, 600_000, 0},
		"a short verify":    {59 * time.Second, 599_999, 0},
	} {
		playScene(t, func(s *scene) {
			s.StopWorker()
			s.Sleep(2 * time.Minute)
			s.Must(s.Ledger.CreateShard(s.Ctx, checkpoint.Shard{Source: "Orders", StreamARN: "arn", Label: "L", ID: "a", State: checkpoint.Done, EventTime: s.Now().Add(-c.ago)}))
			b := Beginning{Ledger: s.Ledger, Source: s.Source, Target: s.Target, Mapping: enginetest.OrdersMapping(t), Hash: "h", Items: c.items, Bytes: 100 << 30}
			began := s.Now()
			state, err := b.Begin(s.Ctx, s.Table("Orders"))
			s.Must(err)
			if took := s.Now().Sub(began); took != c.took || state.Verify.Parts < 17 {
				t.Errorf("%s: after %s, %d parts", name, took, state.Verify.Parts)
			}
		})
	}
}

// The document lists a bounded number of findings, and the report all of them.
func TestHowManyFindingsAreListed(t *testing.T) {
	playScene(t, func(s *scene) {
		for i := range 150 {
			s.Damage("orders", fmt.Sprintf("z%03d", i), "d", "total", "x")
		}
		file := filepath.Join(t.TempDir(), "r.jsonl")
		if err := os.WriteFile(file, []byte(strings.Repeat("old\n", 100_000)), 0o600); err != nil {
			t.Fatal(err)
		}
		o := s.operator(func(o *Operator) { o.Report = file })
		if err := o.Begin(s.Ctx); !diag.Has(err, diag.RowsDiffer) {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		s.Must(err)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		var last line
		s.Must(json.Unmarshal([]byte(lines[len(lines)-1]), &last))
		if len(lines) != 151 || *last.Listed != 150 || *last.LeftOut != 0 || last.Result.Foreign != 150 {
			t.Errorf("%d lines, %+v", len(lines), last)
		}
		o.tables[0].list = slices.Repeat(o.tables[0].list, 10)
		if n := len(o.judge(s.Now()).Tables[0].Result.Findings); n != mostListed {
			t.Errorf("%d findings", n)
		}
	})
}

// A command for one table says which verify it cannot change. A command for all tables changes
// every running verify.
func TestWhichVerifiesACommandChanges(t *testing.T) {
	playScene(t, func(s *scene) {
		for _, step := range []string{Pause, Resume} {
			err := s.operator(nil).Steer(s.Ctx, step)
			if !diag.Has(err, diag.VerifyRefused) || !strings.Contains(err.Error(), "cannot "+step+" the verify of table Orders") {
				t.Errorf("%s: %v", step, err)
			}
		}
		s.Must(s.Source.Put(s.Ctx, "Parts", kit.Item("p", "total=p")))
		s.Load("Parts")
		all := func(o *Operator) { o.Table, o.Waits = "", false }
		if _, code := s.begin(all); code != "" {
			t.Fatal(code)
		}
		for _, step := range []struct{ step, state string }{{Pause, StatePaused}, {Resume, StateRunning}, {Cancel, StateDone}} {
			d, code := s.run(func(ctx context.Context) error { return s.operator(all).Steer(ctx, step.step) })
			if code != "" || d.Tables[0].State != step.state || d.Tables[1].State != step.state {
				t.Errorf("%s: %q, %s and %s", step.step, code, d.Tables[0].State, d.Tables[1].State)
			}
			for _, table := range []string{"Orders", "Parts"} {
				if v := s.Table(table).Verify; v.Running() != (step.step != Cancel) || (v.Paused != "") != (step.step == Pause) {
					t.Errorf("%s of %s: %+v", step.step, table, v)
				}
			}
		}
	})
}

// If several tables cannot be verified, the error names each of them.
func TestEachTableThatFailsIsNamed(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Must(s.Source.Put(s.Ctx, "Parts", kit.Item("p", "total=p")))
		s.Load("Parts")
		s.StopWorker()
		s.Sleep(time.Minute)
		s.Damage("orders", "c", "", "", "")
		s.Damage("parts", "p", "", "", "")
		err := s.operator(func(o *Operator) { o.Table, o.Patience = "", 90*time.Second }).Begin(s.Ctx)
		if !diag.Has(err, diag.VerifyWaits) || !strings.Contains(err.Error(), "table Orders") || !strings.Contains(err.Error(), "table Parts") {
			t.Errorf("%v", err)
		}
	})
}

// The configured limits of loads bound a verify of the command too.
func TestAVerifyIsLimited(t *testing.T) {
	for rows, least := range map[int]time.Duration{0: 0, 1: 8 * time.Second} {
		playScene(t, func(s *scene) {
			s.Config.Backfill.MaxRowsPerSecond = rows
			began := s.Now()
			_, code := s.begin(nil)
			if took := s.Now().Sub(began); code != "" || took < least || rows == 0 && took > 5*time.Second {
				t.Errorf("%d rows a second: %q after %s", rows, code, took)
			}
		})
	}
}

// A warning about extra rows has their number.
func TestEachUnprovedRowIsCounted(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Change("Orders", func(state *checkpoint.TableState) { state.MadeByUs = true })
		s.Damage("orders", "y", "d", "total", "x")
		s.Damage("orders", "z", "d", "total", "x")
		_, _ = s.begin(func(o *Operator) { o.Repair, o.RemoveForeign = true, true })
		if !strings.Contains(s.stderr.String(), "Orders: removing 2 extra rows without proof that this migration wrote them\n") {
			t.Errorf("%s", &s.stderr)
		}
	})
}

// Another migration is searched for in each table that a mapping writes.
func TestEachTableOfAMappingIsSearched(t *testing.T) {
	playScene(t, func(s *scene) {
		to := func(table string) transform.Write {
			return transform.Write{Table: table, Columns: []transform.ColumnRule{{Attribute: "*", To: "d"}}}
		}
		m, err := transform.New(transform.Spec{Source: "Orders", Table: "orders", PrimaryKey: keysOfOrders, Families: []transform.Family{{Name: "d"}},
			Rules: []transform.Rule{{Writes: []transform.Write{to("orders"), to("second")}}}})
		s.Must(err)
		o := s.operator(nil)
		o.ledger = s.Ledger
		var asked []string
		o.ends.witness = func(table string) checkpoint.Store {
			asked = append(asked, table)
			if table == "second" {
				return s.witnessed("Returns")
			}
			return &checkpointtest.Memory{}
		}
		list := []verify.Finding{{Kind: verify.Extra, Table: "orders", Row: "b"}}
		may, refused, err := o.repairable(s.Ctx, &table{config: config.Table{From: "Orders"}, mapping: m}, list, &sink.Repairer{})
		if err != nil || refused == nil || len(may) != 0 || !slices.Equal(asked, []string{"orders", "second"}) {
			t.Errorf("%v, %v, %+v; asked %q", err, refused, may, asked)
		}
	})
}
