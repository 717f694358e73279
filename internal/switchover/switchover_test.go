package switchover

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
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
		{KeepFallback: "no", Overrides: []string{"moon"}, Reason: "x"}, {KeepFallback: "no", Overrides: []string{"copy"}, Reason: "x"},
		{KeepFallback: "no", Overrides: []string{"full_verify"}, Reason: "x"}, {KeepFallback: "no", Overrides: []string{"lag"}, Reason: " "}, {KeepFallback: "no", Between: "02:00-04:00"}, {KeepFallback: "no", Expires: -1}} {
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
	p := planOf(cfg, config.Group{Tables: cfg.Tables}, Request{KeepFallback: "no", WhenReady: true, Between: "02:00-04:00", Overrides: []string{"lag"}, Reason: "quiet"}, noon)
	if !slices.Equal(p.Tables, []string{"Orders", "Items"}) || !slices.Equal(p.Targets, []string{"all", "Items"}) || p.Approved || p.KeepFallback ||
		!p.Expires.Equal(noon.Add(time.Hour)) || p.From != 120 || p.To != 240 || p.Overrides[0] != (checkpoint.CutoverOverride{Gate: "lag", Reason: "quiet"}) {
		t.Errorf("%+v", p)
	}
	if p := planOf(cfg, config.Group{Tables: cfg.Tables}, Request{KeepFallback: "yes", Yes: true, Expires: time.Minute}, noon); !p.Approved || !p.KeepFallback || !p.Expires.Equal(noon.Add(time.Minute)) {
		t.Errorf("%+v", p)
	}
	shared := append(slices.Clone(cfg.Tables), config.Table{From: "Parts", To: "all"})
	if p := planOf(cfg, config.Group{Tables: shared}, Request{Rehearse: true}, noon); !slices.Equal(p.Targets, []string{"all", "Items"}) || len(p.Tables) != 3 || !p.Approved || !p.Rehearse {
		t.Errorf("two tables of one target, rehearsed: %+v", p)
	}
	if p := planOf(cfg, config.Group{Tables: cfg.Tables[:1]}, Request{}, noon); p.Hash == planOf(cfg, config.Group{Tables: cfg.Tables}, Request{}, noon).Hash {
		t.Error("other tables have the same hash")
	}
}

// An application that ranks its writes has no record and says no goodbye, so late writes are rejected
// before the switch, whichever of the tables it writes. Otherwise the setting decides.
func TestWhenLateWritesAreRejectedFirst(t *testing.T) {
	const numbers = "dual_writes: { version_attribute: n }\n"
	for name, c := range map[string]struct {
		more string
		off  []string // tables that the application does not write
		want bool
	}{
		"no dual writes":                    {"", nil, false},
		"the setting":                       {"cutover: { fence: before_switch }\n", nil, true},
		"the setting, with settle":          {"dual_writes: { settle: 1m }\ncutover: { fence: before_switch }\n", nil, true},
		"settle":                            {"dual_writes: { settle: 1m }\n", nil, false},
		"numbers":                           {numbers, nil, true},
		"numbers in the first table":        {numbers, []string{"Items"}, true},
		"numbers in the last table":         {numbers, []string{"Orders"}, true},
		"numbers in none":                   {numbers, []string{"Orders", "Items"}, false},
		"the setting, with numbers in none": {numbers + "cutover: { fence: before_switch }\n", []string{"Orders", "Items"}, true},
	} {
		tables := []string{}
		for _, table := range []string{"from: Orders, to: all", "from: Items"} {
			if slices.ContainsFunc(c.off, func(off string) bool { return strings.HasPrefix(table, "from: "+off) }) {
				table += ", dual_writes: off"
			}
			tables = append(tables, "{ "+table+" }")
		}
		cfg, err := config.Parse("replicator.yaml", []byte("version: 1\ntarget: { project: p, instance: i }\ntables: ["+strings.Join(tables, ", ")+"]\n"+c.more), func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if p := planOf(cfg, config.Group{Tables: cfg.Tables}, Request{KeepFallback: "no"}, noon); p.FenceFirst != c.want {
			t.Errorf("%s: fence before the switch: %t", name, p.FenceFirst)
		}
	}
}

// The two booleans that scripts look at: ready only while no verify is running and no gate is open,
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
	open := checkpoint.CutoverGate{Name: readiness.GateLag, Table: "Orders", Figure: "held 1s", Cure: "replicator status"}
	passed := open
	passed.Overridden = "because"
	for _, c := range []struct {
		step        checkpoint.CutoverStep
		gates       []checkpoint.CutoverGate
		ready, safe bool
	}{
		{"", nil, false, false}, {"", []checkpoint.CutoverGate{open}, false, false}, {"", []checkpoint.CutoverGate{passed}, true, false},
		{checkpoint.CutoverFence, []checkpoint.CutoverGate{passed}, false, false}, {checkpoint.CutoverSwitching, nil, false, false},
		{checkpoint.CutoverWatching, nil, false, true}, {checkpoint.CutoverDone, nil, false, true}, {checkpoint.CutoverCancelled, []checkpoint.CutoverGate{passed}, true, false},
	} {
		record := checkpoint.Cutover{Step: c.step, SwitchedAt: noon, MomentAt: noon, GivenUp: []checkpoint.CutoverTry{{Attempt: 1, Reason: "r", FrozenAt: noon}}}
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
		err := o.finalizable(t.Context(), group{alone: true}, checkpoint.Cutover{Attempt: 1, Step: step, SwitchedAt: noon})
		if !errors.As(err, &refused) || refused.Code != diag.FinalizeRefused {
			t.Errorf("%s: %v", step, err)
		}
	}
}

// The text for people: a line for the tables that are ready together, one for each that is not, how
// long each step may take, and what happened.
func TestRender(t *testing.T) {
	cfg := parsed(t, "dual_writes: { settle: 1m }\n")
	gate := func(name, table, figure, overridden string, ready bool) checkpoint.CutoverGate {
		return checkpoint.CutoverGate{Name: name, Table: table, Figure: figure, Cure: "replicator x", Overridden: overridden, Ready: ready}
	}
	gates := []checkpoint.CutoverGate{gate(readiness.GateCopy, "Orders", "done", "", true), gate(readiness.GateCopy, "Items", "done", "", true),
		gate(readiness.GateLag, "Orders", "9s", "", false), gate(readiness.GateLag, "Items", "1s", "", true), gate(readiness.GateParked, "Orders", "3", "known", false)}
	back := []WayBack{{"Orders", true, nil}, {"Items", false, []string{"types", "keys"}}}
	for name, c := range map[string]struct {
		record checkpoint.Cutover
		gates  []checkpoint.CutoverGate
		whole  bool
		want   []string
		not    []string
	}{
		"gates": {checkpoint.Cutover{}, gates, false, []string{"✓ copy complete                2 of 2 tables\n", "✗ lag below", "Orders: 9s   → replicator x -c f\n", "! parked items at most 0", "overridden: known",
			"not ready: 1 check fails\n", "deadlines: freeze ", "the freeze lasts at least 1m", "no fallback for Items after the switch: types; keys\n"}, []string{"attempt", "no fallback for Orders", "✓ lag"}},
		"ready":    {checkpoint.Cutover{}, gates[:1], false, []string{"✓ copy complete                done\n", "ready\n"}, []string{"not ready"}},
		"two fail": {checkpoint.Cutover{}, append(gates, gate(readiness.GateFull, "Items", "never", "", false)), false, []string{"not ready: 2 checks fail\n"}, nil},
		"under way": {checkpoint.Cutover{Attempt: 2, Step: checkpoint.CutoverDrain, StepAt: noon.Add(-time.Minute), FreezeBegunAt: noon.Add(-2 * time.Minute), Trouble: "canaries"}, gates, false,
			[]string{"cutover, attempt 2: drain, for 1m00s; writes were frozen for 2m00s\n", "  waits: canaries\n", "replicator run -c f  no process drives"}, []string{"deadlines", "cancelled:"}},
		"cancelled":  {checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverCancelled, Reason: "a gate"}, gates, false, []string{"attempt 1: cancelled", "  cancelled: a gate\n", "deadlines"}, nil},
		"rehearsed":  {checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverRehearsed, CutoverPlan: checkpoint.CutoverPlan{Rehearse: true}}, gates, false, []string{"rehearsal, attempt 1: rehearsed", "deadlines"}, nil},
		"no command": {checkpoint.Cutover{}, []checkpoint.CutoverGate{{Name: readiness.GateFence, Table: "Orders", Figure: "no", Cure: "grant it"}}, false, []string{"→ grant it\n"}, nil},
		"watching": {checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverWatching, SwitchedAt: noon, CutoverPlan: checkpoint.CutoverPlan{WatchFor: time.Hour}, Strays: 7,
			Stragglers: []checkpoint.CutoverStraggler{{Table: "Orders", Key: "k1", At: noon}}, Timeline: []checkpoint.CutoverEvent{{At: noon, Step: "watching", Text: "switched"}},
			Hooks:  []checkpoint.CutoverHook{{Name: "switch", Token: "1.7.2", Outcome: "done", Began: noon, Ended: noon.Add(time.Second), Output: "one\ntwo\n"}},
			Proofs: []checkpoint.CutoverProof{{Table: "Orders", Shard: "s1", How: "a canary"}}}, nil, true,
			[]string{"watching for late writers until 2026-11-25T13:00:00Z\n", "7 changes after the freeze\n", "item k1 of table Orders, at ", "2026-11-25T12:00:00Z  watching    switched\n",
				"hook switch, token 1.7.2: done after 1.0s\n    one\n    two\n", "drained: Orders s1: a canary\n"}, nil},
		"late tail": {checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverWatching, SwitchedAt: noon, Strays: 2, Stragglers: []checkpoint.CutoverStraggler{{Table: "Orders", Key: "k1", At: noon}, {Table: "Orders", Key: "k2", At: noon, Tail: true}}}, nil, true,
			[]string{"2 changes that the target lacks\n", "item k1 of table Orders, at 2026-11-25T12:00:00Z\n", "item k2 of table Orders, at 2026-11-25T12:00:00Z (late tail: before the freeze)\n"}, []string{"after the freeze"}},
	} {
		var out strings.Builder
		d := judge(input{cfg: cfg, tables: cfg.Tables, record: c.record, gates: slices.Clone(c.gates), wayBack: back, with: " -c f"}, noon)
		if err := d.render(&out, c.whole); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %q is missing in\n%s", name, want, &out)
			}
		}
		for _, not := range c.not {
			if strings.Contains(out.String(), not) {
				t.Errorf("%s: %q is in\n%s", name, not, &out)
			}
		}
	}
}

// A plan names each reason for which a fallback would lose data, with its table.
func TestWhatAFallbackLoses(t *testing.T) {
	got := lossy([]WayBack{{"Orders", true, nil}, {"Items", false, []string{"types", "keys"}}, {"Parts", false, []string{"sets"}}})
	if want := []string{"Items: types", "Items: keys", "Parts: sets"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A plan says how much shorter the freeze is if the application promises to be quiet. The setting
// of the fence is not undone by that.
func TestWhatAPromiseSaves(t *testing.T) {
	for name, c := range map[string]struct {
		more        string
		most, saved time.Duration
		unlessQuiet bool
	}{
		"no dual writes":     {"", 8 * time.Second, 0, true},
		"the fence":          {"cutover: { fence: before_switch }\n", 43 * time.Second, 0, false},
		"settle":             {"dual_writes: { settle: 1m }\n", 68 * time.Second, time.Minute, true},
		"settle and fence":   {"dual_writes: { settle: 1m }\ncutover: { fence: before_switch }\n", 103 * time.Second, time.Minute, false},
		"numbers":            {"dual_writes: { version_attribute: n }\n", 43 * time.Second, 35 * time.Second, true},
		"numbers, and fence": {"dual_writes: { version_attribute: n }\ncutover: { fence: before_switch }\n", 43 * time.Second, 0, false},
	} {
		cfg := parsed(t, c.more)
		p := planOf(cfg, config.Group{Tables: cfg.Tables}, Request{KeepFallback: "no"}, noon)
		if p.FreezeAtMost != c.most || p.UnlessQuiet != c.saved || p.FenceUnlessQuiet != c.unlessQuiet {
			t.Errorf("%s: %s, %s saved, fence unless quiet %t", name, p.FreezeAtMost, p.UnlessQuiet, p.FenceUnlessQuiet)
		}
	}
}

// What is shown of a promise: before, that the hook may give it, and afterwards, that it did.
func TestAPromiseIsShown(t *testing.T) {
	cfg := parsed(t, "dual_writes: { settle: 1m }\n")
	gates := []checkpoint.CutoverGate{{Name: readiness.GateLag, Ready: true}}
	for name, c := range map[string]struct {
		record    checkpoint.Cutover
		may       bool
		want, not string
		least     float64
	}{
		"not known": {checkpoint.Cutover{}, false, "at most 1m8s (cutover.freeze_at_most, raised by dual_writes.settle by 1m (unless freeze_writes answers quiet))", "\x00", 60},
		"may":       {checkpoint.Cutover{}, true, "at most 8s\n", "at least", 0},
		"was":       {checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverCancelled, MayBeQuiet: true}, false, "at most 8s\n", "at least", 0},
		"is": {checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverDrain, Quiet: true, MayBeQuiet: true, FreezeBegunAt: noon, Hooks: []checkpoint.CutoverHook{
			{Name: "freeze_writes", Token: "1.3.1", Outcome: "quiet", Began: noon, Ended: noon.Add(time.Second)}}}, false, "hook freeze_writes, token 1.3.1: quiet after 1.0s\n", "at least", 0},
	} {
		var out strings.Builder
		d := judge(input{cfg: cfg, tables: cfg.Tables, record: c.record, gates: gates, mayBeQuiet: c.may}, noon)
		if err := d.render(&out, true); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), c.want) || strings.Contains(out.String(), c.not) || d.Quiet != c.record.Quiet || d.FrozenAtLeast != c.least {
			t.Errorf("%s: at least %.0f s\n%s", name, d.FrozenAtLeast, &out)
		}
	}
}

// A freeze lasts at least as long as the application's writes to one of the tables settle.
func TestHowLongAFreezeLastsAtLeast(t *testing.T) {
	cfg := parsed(t, "dual_writes: { settle: 1m }\n")
	off := cfg.Tables[0]
	off.DualWrites = "off"
	for name, c := range map[string]struct {
		tables []config.Table
		want   time.Duration
	}{
		"none": {nil, 0}, "both": {cfg.Tables, time.Minute}, "not the first": {[]config.Table{off, cfg.Tables[1]}, time.Minute}, "not the second": {[]config.Table{cfg.Tables[1], off}, time.Minute},
		"neither": {[]config.Table{off}, 0},
	} {
		if got := settled(cfg, c.tables); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// What leads on from each step.
func TestAdvice(t *testing.T) {
	cfg := parsed(t, "")
	ready := []checkpoint.CutoverGate{{Name: readiness.GateLag, Ready: true}}
	for name, c := range map[string]struct {
		record checkpoint.Cutover
		driver string
		gates  []checkpoint.CutoverGate
		want   string
	}{
		"ready":     {checkpoint.Cutover{}, "", ready, "cutover start --dry-run --keep-fallback yes"},
		"not ready": {checkpoint.Cutover{}, "", nil, ""},
		"nobody":    {checkpoint.Cutover{Step: checkpoint.CutoverDrain}, "", nil, "run"},
		"approval":  {checkpoint.Cutover{Step: checkpoint.CutoverRequested}, "w", nil, "cutover approve"},
		"approved":  {checkpoint.Cutover{Step: checkpoint.CutoverRequested, CutoverPlan: checkpoint.CutoverPlan{Approved: true}}, "w", nil, "cutover cancel"},
		"fence":     {checkpoint.Cutover{Step: checkpoint.CutoverFence}, "w", nil, "cutover cancel"},
		"switching": {checkpoint.Cutover{Step: checkpoint.CutoverSwitching}, "w", nil, "cutover resolve --switched yes|no"},
		"watching":  {checkpoint.Cutover{Step: checkpoint.CutoverWatching}, "w", nil, ""},
		"strays":    {checkpoint.Cutover{Step: checkpoint.CutoverWatching, Strays: 1}, "w", nil, "cutover status"},
		"seen":      {checkpoint.Cutover{Step: checkpoint.CutoverWatching, Strays: 2, StraysSeen: 2}, "w", nil, ""},
		"late":      {checkpoint.Cutover{Step: checkpoint.CutoverDone, Strays: 2, StraysSeen: 1}, "", nil, "finalize --dry-run --strays-seen 2"},
		"late seen": {checkpoint.Cutover{Step: checkpoint.CutoverDone, Strays: 2, StraysSeen: 2}, "", nil, "finalize --dry-run"},
		"done":      {checkpoint.Cutover{Step: checkpoint.CutoverDone}, "", nil, "finalize --dry-run"},
		"finalized": {checkpoint.Cutover{Step: checkpoint.CutoverDone, FinalizedAt: noon}, "", nil, ""},
		"cancelled": {checkpoint.Cutover{Step: checkpoint.CutoverCancelled}, "", ready, "cutover start --dry-run --keep-fallback yes"},
	} {
		c.record.Attempt = 1
		d := judge(input{cfg: cfg, tables: cfg.Tables, record: c.record, gates: c.gates, driver: c.driver, with: " -c f"}, noon)
		got := ""
		if len(d.NextSteps) > 0 {
			got = d.NextSteps[0].Command
		}
		if want := "replicator " + c.want + " -c f"; c.want == "" && got != "" || c.want != "" && got != want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
