package plan

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// read returns the input for source tables with the given numbers of items.
func read(items ...int64) *Input {
	in := &Input{Prober: &preflight.Prober{Cfg: &config.Config{Name: "test"}, Source: &preflight.Source{Region: "eu-west-1"}},
		question: Question{Prices: cost.Default()}, env: func(string) (string, bool) { return "", false }, at: time.Unix(1_795_170_000, 0), sharing: len(items)}
	in.Cfg.Backfill.MaxRowsPerSecond = 2000
	for i, n := range items {
		name := string(rune('A' + i))
		in.sources = append(in.sources, sourceTable{Table: Table{Source: name, Items: n},
			found: preflight.Table{Config: config.Table{From: name}, Description: backfill.Description{Name: name, Items: n, Bytes: 100 * n}}})
	}
	return in
}

// Warnings are ordered by subject: the configuration, each source table with its estimates, the
// target's tables. A second judgement gives the same.
func TestWarningsAreInOrder(t *testing.T) {
	in := read(1_000_000_000, 10)
	warn(&in.configured, &diag.Error{Code: diag.ItemsMove})
	for i := range in.sources {
		in.sources[i].warn(&diag.Error{Code: diag.StreamReaders})
	}
	warn(&in.targets, &diag.Error{Code: diag.ViewDiffers})
	for range 2 {
		var codes []string
		for _, e := range in.Judge().Warnings {
			if codes = append(codes, e.Code); !e.Warning {
				t.Errorf("%s is no warning", e.Code)
			}
		}
		if want := []string{diag.ItemsMove, diag.StreamReaders, diag.SlowCopy, diag.StreamReaders, diag.ViewDiffers}; !slices.Equal(codes, want) {
			t.Errorf("%v, want %v", codes, want)
		}
	}
}

// Tables that are copied at the same time share the limit of rows.
func TestTablesShareTheLimitOfRows(t *testing.T) {
	alone, beside := read(1_000_000).Judge().Tables[0].Copy, read(1_000_000, 1_000_000).Judge().Tables[0].Copy
	if alone.RowsPerSecond != 2000 || beside.RowsPerSecond != 1000 || beside.Seconds != 2*alone.Seconds {
		t.Errorf("alone %+v, beside another %+v", alone, beside)
	}
}

// The plan names the mode of the first load, and the estimates of all modes that are possible. If
// the load cannot be fast, the plan says why.
func TestModesOfACopy(t *testing.T) {
	for name, c := range map[string]struct {
		change func(in *Input)
		mode   string
		why    string // why the load cannot be fast
	}{
		"auto":              {func(*Input) {}, fast, ""},
		"guarded":           {func(in *Input) { in.Cfg.Backfill.Mode = guarded }, guarded, ""},
		"of the table":      {func(in *Input) { in.sources[0].found.Config.BackfillMode = guarded }, guarded, ""},
		"published changes": {func(in *Input) { in.Cfg.Relay.Topic = "projects/p/topics/t" }, guarded, "published to a topic"},
		"dual writes":       {func(in *Input) { in.Cfg.DualWrites.Settle = time.Second }, guarded, "dual_writes"},
		"loaded before":     {func(in *Input) { in.sources[0].guarded = "it is not the table's first load" }, guarded, "first load"},
		"rows":              {func(in *Input) { in.forbid("a", "target table a holds rows") }, guarded, "holds rows"},
		"rows elsewhere":    {func(in *Input) { in.forbid("b", "target table b holds rows") }, fast, ""},
	} {
		in := read(100_000_000)
		in.Cfg.Backfill.MaxRowsPerSecond, in.Cfg.Backfill.Mode = 0, "auto"
		m, err := transform.NewMapping("A", "a", "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}})
		if err != nil {
			t.Fatal(err)
		}
		in.sources[0].found.Mapping = m
		in.cluster = cost.Cluster{Nodes: 30}
		c.change(in)
		got := in.Judge().Tables[0].Copy
		if got.Mode != c.mode || (got.Guarded != nil) != (c.why != "") || c.why != "" && !strings.Contains(*got.Guarded, c.why) {
			t.Errorf("%s: %+v", name, got)
		}
		want := map[string]float64{guarded: 10_000}
		if c.why == "" {
			want[fast] = 50_000
		}
		for _, m := range got.Modes {
			if m.RowsPerSecond != want[m.Mode] || m.Seconds != 100_000_000/m.RowsPerSecond || m.Mode == got.Mode && m.RowsPerSecond != got.RowsPerSecond {
				t.Errorf("%s: %+v", name, m)
			}
			delete(want, m.Mode)
		}
		if len(want) > 0 {
			t.Errorf("%s: no estimate of %v", name, want)
		}
	}
}

func TestPrivilegesThatAreMissing(t *testing.T) {
	in := read(1)
	if got := in.Judge().Missing; got != nil {
		t.Errorf("nothing was refused: %+v", got)
	}
	in.sources[0].Key = "arn:aws:kms:eu-west-1:111122223333:key/1"
	in.Told = []preflight.Answer{{Name: "records of A", Error: &diag.Error{Code: diag.SourceDenied}}}
	if got := in.Judge().Missing; got == nil || got.AWS == nil || got.AWS.Statement[len(got.AWS.Statement)-1].Resource[0] != in.sources[0].Key {
		t.Errorf("a key is left out: %+v", got)
	}
	if got := in.Judge().Missing; got == nil || got.AWS == nil || got.GCP != nil {
		t.Errorf("DynamoDB refused: %+v", got)
	}
	in.Told, in.lacks = nil, []string{"bigtable.tables.get"}
	if got := in.Judge().Missing; got == nil || got.AWS != nil || len(got.GCP) != 1 {
		t.Errorf("Bigtable refused: %+v", got)
	}
}

// H99: nothing is created for a run that would be refused.
func TestH99_APlanKnowsWhatARunRefuses(t *testing.T) {
	for _, c := range []struct {
		code    string
		accept  bool
		refused bool
	}{
		{diag.ClusterChanged, true, true}, {diag.SourceMoved, true, true}, {diag.MappingChanged, false, true},
		{diag.MappingChanged, true, false}, {diag.NeedsLoad, false, false},
		{diag.TargetHoldsRows, false, true}, {diag.TargetHoldsRows, true, false},
	} {
		in := read(1)
		warn(&in.targets, &diag.Error{Code: c.code, What: "w"})
		d := in.Judge()
		if err := d.refusal(Question{AcceptMapping: c.accept, AdoptRows: c.accept}); (err != nil) != c.refused || !d.Warnings[0].Warning {
			t.Errorf("%s, accepted: %t: %v", c.code, c.accept, err)
		}
	}
}

// The columns of the former mapping come from the ledger. They cannot forge a line of the plan.
func TestColumnsOfAMappingChangeAreEscaped(t *testing.T) {
	var out bytes.Buffer
	tab := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	(&MappingChange{Kept: true, FormerColumns: []string{"orders d:a\n\x1b[2Jforged"}}).write(tab, 1)
	_ = tab.Flush() // writes to a buffer cannot fail
	if got := out.String(); diag.PrintableLines(got) != got || strings.Contains(got, "\nforged") || !strings.Contains(got, `d:a\n\x1b[2Jforged`) {
		t.Errorf("%q", got)
	}
}

// The plan says what the migration needs: for the changes that workers measured, else for the most
// that the open shards can give.
func TestSizing(t *testing.T) {
	in, open := read(10, 10), 4
	if d := in.Judge(); d.Sizing != nil {
		t.Errorf("without streams: %+v", d.Sizing)
	}
	in.sources[0].OpenShards = &open
	in.cluster.Nodes = 3
	for _, c := range []struct {
		rate float64
		want string
	}{
		{0, "\nSizing: an estimate for at most 4k changes/s, which the open shards can give\n  2 workers, one of which can fail: each 0.5 CPU, 128 MiB\n  1 Bigtable node for changes, 1 during the copy; the cluster has 3\n"},
		{123, "\nSizing: an estimate for 120 changes/s, as measured by the workers\n  2 workers, one of which can fail: each 0.25 CPU, 128 MiB\n  1 Bigtable node for changes, 1 during the copy; the cluster has 3\n"},
	} {
		state := checkpoint.TableState{Label: "L"}
		in.sources[0].changes = 0
		in.judgeExport(&in.sources[0], state, []checkpoint.Shard{{Label: "L", Shown: checkpoint.Shown{Rate: c.rate}}, {Label: "before", Shown: checkpoint.Shown{Rate: 9}}})
		var out bytes.Buffer
		writeSizing(&out, in.Judge().Sizing)
		if out.String() != c.want {
			t.Errorf("%v changes/s:\n%s\nwant\n%s", c.rate, out.String(), c.want)
		}
	}
}
