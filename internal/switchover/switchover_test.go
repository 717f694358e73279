package switchover

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func parsed(t *testing.T, more string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("replicator.yaml", []byte("version: 1\ntarget: { project: p, instance: i }\ntables: [{ from: Orders, to: all }, { from: Items }]\n"+more), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestHours(t *testing.T) {
	for text, want := range map[string][2]int{"": {0, 0}, "02:00-04:30": {120, 270}, "22:00-04:00": {1320, 240}} {
		if from, to, err := hours(text); err != nil || [2]int{from, to} != want {
			t.Errorf("%q: %d to %d, %v", text, from, to, err)
		}
	}
	for _, text := range []string{"2-4", "02:00", "25:00-26:00", "02:00-02:00", "02:00-04:00-06:00"} {
		if _, _, err := hours(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// What is asked without an answer, or answered without a question, is refused before anything else.
func TestRequestsThatSayNothing(t *testing.T) {
	for _, r := range []Request{{}, {KeepFallback: "perhaps"}, {KeepFallback: "no", Overrides: []string{"lag"}}, {KeepFallback: "no", Reason: "x"},
		{KeepFallback: "no", Overrides: []string{"moon"}, Reason: "x"}, {KeepFallback: "no", Between: "02:00-04:00"}, {KeepFallback: "no", Expires: -1}} {
		if r.check() == nil {
			t.Errorf("%+v is taken", r)
		}
	}
	if err := (&Request{KeepFallback: "yes", Overrides: []string{"lag"}, Reason: "x", WhenReady: true, Between: "02:00-04:00"}).check(); err != nil {
		t.Error(err)
	}
}

// A plan has all tables and each target once, and begins by itself only if somebody said yes.
func TestPlan(t *testing.T) {
	cfg := parsed(t, "cutover: { request_expires: 1h }\n")
	p := planOf(cfg, cfg.Tables, Request{KeepFallback: "no", WhenReady: true, Between: "02:00-04:00", Overrides: []string{"lag"}, Reason: "quiet"}, noon)
	if !slices.Equal(p.Tables, []string{"Orders", "Items"}) || !slices.Equal(p.Targets, []string{"all", "Items"}) || p.Approved || p.KeepFallback ||
		!p.Expires.Equal(noon.Add(time.Hour)) || p.From != 120 || p.To != 240 || p.Overrides[0] != (checkpoint.CutoverOverride{Gate: "lag", Reason: "quiet"}) {
		t.Errorf("%+v", p)
	}
	if p := planOf(cfg, cfg.Tables, Request{KeepFallback: "yes", Yes: true, Expires: time.Minute}, noon); !p.Approved || !p.KeepFallback || !p.Expires.Equal(noon.Add(time.Minute)) {
		t.Errorf("%+v", p)
	}
	if p := planOf(cfg, cfg.Tables[:1], Request{}, noon); p.Hash == planOf(cfg, cfg.Tables, Request{}, noon).Hash {
		t.Error("other tables have the same hash")
	}
}

// While the application stands still everything is compared if there is time, and else what was
// changed since a clean comparison of everything began; never less.
func TestFinalScope(t *testing.T) {
	clean := checkpoint.VerifyResult{Number: 1, BegunAt: noon, EndedAt: noon.Add(time.Hour)}
	dirty := clean
	dirty.Missing = 1
	for _, c := range []struct {
		items int64
		full  checkpoint.VerifyResult
		want  time.Time
	}{{1000, clean, time.Time{}}, {1_000_000_000, clean, noon.Add(-time.Minute)}, {1_000_000_000, dirty, time.Time{}}, {1_000_000_000, checkpoint.VerifyResult{}, time.Time{}}} {
		if got := finalScope(c.items, 10*time.Minute, c.full); !got.Equal(c.want) {
			t.Errorf("%d items: since %v", c.items, got)
		}
	}
}

// The two booleans that scripts look at: ready only while none is under way and no gate is open,
// safe to write only once nothing of ours is written.
func TestDocument(t *testing.T) {
	cfg := parsed(t, "")
	compiler := jsonschema.NewCompiler()
	var text any
	if err := json.Unmarshal(Schema, &text); err != nil {
		t.Fatal(err)
	}
	if err := compiler.AddResource("cutover.json", text); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("cutover.json")
	if err != nil {
		t.Fatal(err)
	}
	open := checkpoint.CutoverGate{Name: cutover.GateLag, Table: "Orders", Figure: "held 1s", Cure: "replicator status"}
	passed := open
	passed.Overridden = "because"
	for _, c := range []struct {
		step        checkpoint.CutoverStep
		gates       []checkpoint.CutoverGate
		ready, safe bool
	}{
		{"", nil, false, false}, {"", []checkpoint.CutoverGate{open}, false, false}, {"", []checkpoint.CutoverGate{passed}, true, false},
		{checkpoint.CutoverFence, []checkpoint.CutoverGate{passed}, false, false}, {checkpoint.CutoverSwitching, nil, false, true},
		{checkpoint.CutoverWatching, nil, false, true}, {checkpoint.CutoverDone, nil, false, true}, {checkpoint.CutoverCancelled, []checkpoint.CutoverGate{passed}, true, false},
	} {
		record := checkpoint.Cutover{Step: c.step, SwitchedAt: noon}
		if c.step != "" {
			record.Attempt = 1
		}
		d := judge(input{cfg: cfg, tables: cfg.Tables, record: record, gates: c.gates}, noon)
		if d.Ready != c.ready || d.SafeToWrite != c.safe {
			t.Errorf("%s: ready %v, safe to write %v", c.step, d.Ready, d.SafeToWrite)
		}
		data, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var document any
		if err := json.Unmarshal(data, &document); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(document); err != nil {
			t.Errorf("%s: %v", c.step, err)
		}
	}
}

// Families of ours, and with them what a way back needs, go at no step before the end.
func TestH97_FinalizeRefusesBeforeTheEnd(t *testing.T) {
	o := &Operator{Cfg: parsed(t, "")}
	for _, step := range []checkpoint.CutoverStep{"", checkpoint.CutoverRequested, checkpoint.CutoverChecks, checkpoint.CutoverFreeze, checkpoint.CutoverDrain, checkpoint.CutoverVerify,
		checkpoint.CutoverFence, checkpoint.CutoverSwitching, checkpoint.CutoverWatching, checkpoint.CutoverCancelling, checkpoint.CutoverCancelled, checkpoint.CutoverRehearsed} {
		var refused *diag.Error
		err := o.finalizable(t.Context(), checkpoint.Cutover{Attempt: 1, Step: step, SwitchedAt: noon})
		if !errors.As(err, &refused) || refused.Code != diag.FinalizeRefused {
			t.Errorf("%s: %v", step, err)
		}
	}
}
