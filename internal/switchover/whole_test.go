package switchover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/evidence"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/kit"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// The plan of a request has each option and each setting in its own member, and nothing else.
func TestTheWholePlanOfARequest(t *testing.T) {
	cfg := parsed(t, "dual_writes: { settle: 20s }\ncutover: { fence: before_switch, watch_for: 30h, request_expires: 40h, listing_bound: 7m, tries: 5, freeze_deadline: 11m, freeze_at_most: 50s, hooks: { freeze_writes: a, switch: b, unfreeze_writes: c, freeze_within: 45s } }\n")
	g := config.Group{Name: "shop", Row: "row", Tables: cfg.Tables, Patterns: []string{"Shop*"}}
	want := checkpoint.CutoverPlan{
		Group: "shop", Patterns: []string{"Shop*"}, Tables: []string{"Orders", "Items"}, Targets: []string{"all", "Items"}, Hash: hashOf(cfg, cfg.Tables),
		KeepFallback: true, Overrides: []checkpoint.CutoverOverride{{Gate: "lag", Reason: "known"}, {Gate: "parked", Reason: "known"}}, WatchFor: 30 * time.Hour, WhenReady: true,
		From: 60, To: 120, Expires: noon.Add(3 * time.Hour), FenceFirst: true, FreezeAtMost: 50*time.Second + 20*time.Second + 35*time.Second, UnlessQuiet: 20 * time.Second,
		ListingBound: 7 * time.Minute, MomentWithin: 40 * time.Hour, MomentUntil: noon.Add(time.Hour), Tries: 5, FreezeWithin: 45 * time.Second, FreezeDeadline: 11 * time.Minute,
		Deadlines: checkpoint.CutoverDeadlines{Freeze: 45 * time.Second, Drain: 11 * time.Minute},
	}
	local := noon.In(time.FixedZone("CET", 3600))
	r := Request{KeepFallback: "yes", Overrides: []string{"lag", "parked"}, Reason: "known", WhenReady: true, Between: "01:00-02:00", Expires: 3 * time.Hour, Timeout: time.Hour}
	if diff := cmp.Diff(want, planOf(cfg, g, r, local)); diff != "" {
		t.Error(diff)
	}
	cfg = parsed(t, "cutover: { request_expires: 40h, freeze_at_most: 50s }\n")
	want = checkpoint.CutoverPlan{
		Group: "one", Tables: []string{"Items"}, Targets: []string{"Items"}, Hash: hashOf(cfg, cfg.Tables[1:]), Rehearse: true, Approved: true, WatchFor: 24 * time.Hour, Expires: noon.Add(40 * time.Hour),
		FenceUnlessQuiet: true, FreezeAtMost: 50 * time.Second, ListingBound: 2 * time.Minute, MomentWithin: 40 * time.Hour, Tries: 3, FreezeWithin: time.Minute,
		Deadlines: checkpoint.CutoverDeadlines{Freeze: time.Minute, Drain: 100 * time.Second},
	}
	if diff := cmp.Diff(want, planOf(cfg, config.Group{Name: "one", Tables: cfg.Tables[1:]}, Request{KeepFallback: "no", Rehearse: true}, noon)); diff != "" {
		t.Error(diff)
	}
}

// The hash of a plan changes with the mapping of each of its tables.
func TestTheHashOfAPlanChangesWithEachMapping(t *testing.T) {
	seen := map[string]string{}
	for _, dropped := range [][2]string{{"", ""}, {"a", ""}, {"", "a"}, {"b", ""}} {
		text := "version: 1\ntarget: { project: p, instance: i }\ntables:\n"
		for i, from := range []string{"Orders", "Items"} {
			text += "  - { from: " + from
			if dropped[i] != "" {
				text += ", drop_attributes: [" + dropped[i] + "]"
			}
			text += " }\n"
		}
		cfg, err := config.Parse("replicator.yaml", []byte(text), func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		h := hashOf(cfg, cfg.Tables)
		if other, found := seen[h]; found {
			t.Errorf("%v has the hash of %s", dropped, other)
		}
		seen[h] = fmt.Sprint(dropped)
	}
}

// A driver has the settings of the configuration, and everything that its process can reach.
// Without a source, it compares and reads nothing.
func TestADriverHasTheSettingsOfTheConfiguration(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Config = parsed(t, "state: { lease: 25s }\ncutover: { freeze_deadline: 7m, ready_when: { lag_below: 4s, lag_held_for: 11m, verify_clean_within: 3h, parked_items_at_most: 2, retention_headroom_above: 10h }, hooks: { freeze_writes: a, switch: b, unfreeze_writes: c, timeout: 6m } }\n")
		e := Ends{Cfg: s.Config, Ledger: s.Ledger, Source: s.Source, Target: s.Target, Version: "1.2.3", Cluster: func(context.Context) (string, error) { return "c-1", nil }}
		d := Driver(e, s)
		want := cutover.Settings{Call: 6 * time.Minute, Ready: readiness.Limits{LagBelow: 4 * time.Second, LagHeldFor: 11 * time.Minute, VerifyWithin: 3 * time.Hour, FinalWithin: 7 * time.Minute, ParkedAtMost: 2, HeadroomAbove: 10 * time.Hour, Lease: 25 * time.Second}}
		if d.Settings != want || d.Version != "1.2.3" || d.Ledger != s.Ledger || d.Hooks != s || d.Source == nil || d.Open == nil || d.Verifier == nil || d.Announce == nil || d.Row != "" {
			t.Errorf("%+v", d)
		}
		if cluster, err := d.Cluster(s.Ctx); cluster != "c-1" || err != nil {
			t.Errorf("cluster %q, %v", cluster, err)
		}
		for _, source := range []string{"Orders", "Orders", "Parts"} {
			n, err := d.Parked(s.Ctx, source)
			s.Must(err)
			parked := transform.Parked{Source: source, Key: fmt.Sprint("k", len(n)), Version: transform.NewVersion(5, 1, kit.Position(1), 0), Reason: "r", Change: s.Source.Changes["Orders"][0]}
			s.Must(sink.NewParking(s.Target.Records(s.Config.State.Table), s.Config.Name).Park(s.Ctx, parked))
			s.Must(sink.NewParking(s.Target.Records(s.Config.State.Table), "another pipeline").Park(s.Ctx, parked))
		}
		for source, want := range map[string]int{"Orders": 2, "Parts": 1} {
			if items, err := d.Parked(s.Ctx, source); err != nil || len(items) != want {
				t.Errorf("%d items of %s are parked, want %d: %v", len(items), source, want, err)
			}
		}
		e.Source = nil
		if d = Driver(e, nil); d.Source != nil || d.Open != nil || d.Verifier != nil || d.Hooks != nil || d.Parked == nil || d.Settings != want {
			t.Errorf("without a source: %+v", d)
		}
	})
}

// A rollback has hooks of its own, by the same names. Those of the cutover do not stand in for them.
func TestTheHooksOfARollback(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "back.sh"), []byte("#!/bin/sh\necho $CUTOVER_HOOK $CUTOVER_DIRECTION\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	of := func(back string) *config.Config {
		cfg, err := config.Parse(filepath.Join(dir, "replicator.yaml"), fmt.Appendf(nil, "version: 1\ntarget: { project: p, instance: i }\ntables: [{ from: Orders }]\ncutover: { hooks: { freeze_writes: ./back.sh, switch: ./back.sh, unfreeze_writes: ./back.sh }%s }\n", back),
			func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	const back = ", rollback_hooks: { freeze_writes: ./back.sh, switch: %s, unfreeze_writes: ./back.sh }"
	hooks, err := Hooks(of(fmt.Sprintf(back, "./back.sh")))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range cutover.HookNames {
		if said, outcome := hooks.Call(t.Context(), cutover.Call{Hook: name, Direction: cutover.Back}); outcome != cutover.HookDone || said != name+" back" {
			t.Errorf("%s: %s, %s", name, said, outcome)
		}
	}
	alone, err := Hooks(of(""))
	if err != nil {
		t.Fatal(err)
	}
	if said, outcome := alone.Call(t.Context(), cutover.Call{Hook: cutover.Switch, Direction: cutover.Back}); outcome != cutover.HookUnknown || !strings.Contains(said, "rollback_hooks") {
		t.Errorf("without hooks of a rollback: %s, %s", said, outcome)
	}
	var refused *diag.Error
	if _, err = Hooks(of(fmt.Sprintf(back, "'back.sh > log'"))); !errors.As(err, &refused) || refused.Code != diag.InvalidValue || refused.What != "cutover.rollback_hooks.switch cannot be called" {
		t.Errorf("a hook that cannot be called: %v", err)
	}
}

// A relative path of a hook begins at the folder of the configuration. A hook that is missing or
// cannot be called is refused by its name.
func TestTheHooksOfAConfiguration(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "freeze.sh"), []byte("#!/bin/sh\necho $CUTOVER_HOOK\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	of := func(hooks string) (*config.Config, error) {
		return config.Parse(filepath.Join(dir, "replicator.yaml"), []byte("version: 1\ntarget: { project: p, instance: i }\ntables: [{ from: Orders }]\n"+hooks), func(string) (string, bool) { return "", false })
	}
	cfg, err := of("cutover: { hooks: { freeze_writes: ./freeze.sh, switch: ./freeze.sh, unfreeze_writes: ./freeze.sh } }\n")
	if err != nil {
		t.Fatal(err)
	}
	hooks, err := Hooks(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range cutover.HookNames {
		if said, outcome := hooks.Call(t.Context(), cutover.Call{Hook: name}); outcome != cutover.HookDone || said != name {
			t.Errorf("%s: %s, %s", name, said, outcome)
		}
	}
	if cfg, err = of(""); err != nil {
		t.Fatal(err)
	}
	var refused *diag.Error
	if _, err = Hooks(cfg); !errors.As(err, &refused) || refused.Code != diag.MissingValue || refused.What != "cutover.hooks.freeze_writes is missing" {
		t.Errorf("without hooks: %v", err)
	}
	if cfg, err = of("cutover: { hooks: { freeze_writes: ./freeze.sh, switch: 'switch.sh | tee log', unfreeze_writes: ./freeze.sh } }\n"); err != nil {
		t.Fatal(err)
	}
	if _, err = Hooks(cfg); !errors.As(err, &refused) || refused.Code != diag.InvalidValue || refused.What != "cutover.hooks.switch cannot be called" || refused.Pos.Line != 4 || !strings.Contains(refused.Cause, `"|"`) {
		t.Errorf("a hook that cannot be called: %v", err)
	}
}

// Tables that a pattern stands for need not be named. Tables of the group beside the pattern must
// be.
func TestTheTablesOfAPatternNeedNotBeNamed(t *testing.T) {
	cfg, err := config.Parse("replicator.yaml", []byte("version: 1\ntarget: { project: p, instance: i }\ntables: [{ from: 'Log_{n}', to: logs, families: { d: maxversions=1 }, rules: [{ row_key: '{$n}#{id}', columns: { '*': d } }] }, { from: Orders }, { from: Parts }]\ncutover: { groups: { logs: ['Log_{n}', Orders] } }\n"), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	var groups []group
	for _, g := range cfg.Groups(cfg.Expand([]string{"Log_1", "Log_2"})) {
		groups = append(groups, group{Group: g})
	}
	for name, c := range map[string]struct {
		tables []string
		chosen string
		says   string
	}{
		"the pattern":              {[]string{"Log_{n}", "Orders"}, "logs", ""},
		"its tables":               {[]string{"Log_1", "Log_2", "Orders"}, "", "also give --table Log_{n}"},
		"only the other table":     {[]string{"Orders"}, "", "also give --table Log_{n}"},
		"only the pattern":         {[]string{"Log_{n}"}, "", "also give --table Orders"},
		"another group":            {[]string{"Parts"}, "Parts", ""},
		"both groups":              {[]string{"Parts", "Orders", "Log_{n}"}, "logs Parts", ""},
		"a table that it lacks":    {[]string{"Parts", "Log_3"}, "", `no source table "Log_3"`},
		"one that is not its part": {[]string{"Log_{n}", "Parts"}, "", "a part of group"},
	} {
		chosen, err := whole(groups, c.tables)
		var refused *diag.Error
		errors.As(err, &refused)
		if got := strings.ReplaceAll(named(chosen), ", ", " "); got != c.chosen || (refused != nil) != (c.says != "") || refused != nil && !strings.Contains(refused.What+" "+refused.Fix, c.says) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A command that only reads shows the groups that have tables or had a cutover. A group that is
// selected is shown in any case.
func TestGroupsWithoutTablesAreNotShown(t *testing.T) {
	cfg, err := config.Parse("replicator.yaml", []byte("version: 1\ntarget: { project: p, instance: i }\ntables: [{ from: 'Log_{n}', to: logs, families: { d: maxversions=1 }, rules: [{ row_key: '{$n}#{id}', columns: { '*': d } }] }, { from: 'Old_{n}', to: olds, families: { d: maxversions=1 }, rules: [{ row_key: '{$n}#{id}', columns: { '*': d } }] }, { from: Parts }]\n"), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	playScene(t, func(s *scene) {
		cfg.Name = s.Config.Name
		for _, c := range []struct {
			selected Selection
			want     string
		}{{Selection{}, "Old_{n}, Parts"}, {Selection{All: true}, "Log_{n}, Old_{n}, Parts"}, {Selection{Group: "Log_{n}"}, "Log_{n}"}} {
			_, err := s.Ledger.UpdateCutover(s.Ctx, "Old_{n}", func(c *checkpoint.Cutover) error {
				if c.Attempt > 0 {
					return nil
				}
				return c.Start(checkpoint.CutoverPlan{Group: "Old_{n}", Patterns: []string{"Old_{n}"}, Tables: []string{"Old_1"}, Targets: []string{"Old_1"}}, s.Now())
			})
			s.Must(err)
			o := s.operator()
			o.Cfg, o.Select = cfg, c.selected
			s.Must(o.open(s.Ctx, "cutover status"))
			groups, err := o.toShow()
			if got := named(groups); err != nil || got != c.want {
				t.Errorf("%+v: %q, want %q, %v", c.selected, got, c.want, err)
			}
			o.Close()
		}
	})
}

// A check forecasts the freeze from the last attempt that measured one, and from the open shards of
// the group.
func TestACheckShowsWhatIsExpected(t *testing.T) {
	check := func(ctx context.Context, o *Operator) error { return o.Check(ctx) }
	playScene(t, func(s *scene) {
		d, code := s.run(s.Ctx, check)
		if code != "" || d.Measured || *d.ExpectedFreeze != 5 {
			t.Errorf("%s: before any attempt %v, measured: %t", code, *d.ExpectedFreeze, d.Measured)
		}
		s.stands(checkpoint.CutoverCancelled)
		s.Must(s.Update(func(c *checkpoint.Cutover) error { c.Measured = 12 * time.Second; return nil }))
		if d, code = s.run(s.Ctx, check); code != "" || !d.Measured || *d.ExpectedFreeze != 12 {
			t.Errorf("%s: after one %v, measured: %t", code, *d.ExpectedFreeze, d.Measured)
		}
		o := s.operator()
		o.Output = "text"
		s.stdout.Reset()
		s.Must(o.Check(s.Ctx))
		if !strings.Contains(s.stdout.String(), "expected freeze: about 12s (measured by the last attempt)\n") {
			t.Errorf("%s", &s.stdout)
		}
		if d, code = s.run(s.Ctx, func(ctx context.Context, o *Operator) error { return o.Show(ctx) }); code != "" || d.ExpectedFreeze != nil || d.ExpectedWait != nil {
			t.Errorf("%s: a status forecasts", code)
		}
	})
}

// scans counts the reads of a scan of the source.
type scans struct {
	Source
	n *int
}

func (s scans) Scan(ctx context.Context, table string, segment, segments int, after attribute.Item, limit int) (backfill.ScanPage, error) {
	*s.n++
	return s.Source.Scan(ctx, table, segment, segments, after, limit)
}

// A sample reads as many items as the cutover asks for. A comparison reads all of them.
func TestASampleHasTheSizeThatIsAskedFor(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Source.Count = 1
		n := 0
		v := verifier{Ends{Cfg: s.Config, Ledger: s.Ledger, Source: scans{s.Source, &n}, Target: s.Target}}
		for _, items := range []int{2, 5} {
			n = 0
			if r, err := v.Sample(s.Ctx, s.Table("Orders"), items); err != nil || n != items || r.Compared != 1 || !r.Clean() {
				t.Errorf("a sample of %d: %d reads, %+v, %v", items, n, r, err)
			}
		}
		if r, err := v.Compare(s.Ctx, s.Table("Orders")); err != nil || r.Items != 1 || r.Compared != 1 || !r.Clean() {
			t.Errorf("all: %+v, %v", r, err)
		}
	})
}

// At most five stragglers are listed, but all of them if the command asked for their keys.
func TestHowManyStragglersAreListed(t *testing.T) {
	d := &Document{}
	for i := range 7 {
		d.Stragglers = append(d.Stragglers, checkpoint.CutoverStraggler{Key: fmt.Sprint("k", i)})
	}
	if n := d.strayLines(); n != 5 {
		t.Errorf("%d lines", n)
	}
	d.StrayKeys = map[string]json.RawMessage{}
	if n := d.strayLines(); n != 7 {
		t.Errorf("with keys %d lines", n)
	}
}

// The evidence has the versions of all workers, and all targets, shards and parked items of each
// table. As text, the command names the files that it wrote.
func TestTheWholeEvidenceOfTwoTables(t *testing.T) {
	playScene(t, func(s *scene) {
		for worker, version := range map[string]string{"w1": "1.4.0", "w2": "1.5.0", "w3": "1.4.0", "w4": ""} {
			l, err := checkpoint.Open(s.Ctx, s.Store, s.Config.Name, checkpoint.Options{Worker: worker, ID: "ledger", Lease: s.Config.State.Lease, About: checkpoint.About{Version: version}})
			s.Must(err)
			s.Must(l.ShowProcess(s.Ctx, checkpoint.RoleStandby))
		}
		s.stands(checkpoint.CutoverWatching)
		for i, source := range []string{"Orders", "Parts", "Parts"} {
			state := s.Table(source)
			s.Must(s.Ledger.CreateShard(s.Ctx, checkpoint.Shard{Source: source, StreamARN: state.StreamARN, Label: state.Label, ID: fmt.Sprint("more-", source, i), State: checkpoint.Waiting, Hop: 500_000, Generation: state.Generation}))
			parked := transform.Parked{Source: source, Key: fmt.Sprint("k", i), Version: transform.NewVersion(5, 1, kit.Position(1), 0), Reason: "r", Change: s.Source.Changes["Orders"][0]}
			s.Must(sink.NewParking(s.Target.Records(s.Config.State.Table), s.Config.Name).Park(s.Ctx, parked))
		}
		dir := filepath.Join(t.TempDir(), "e")
		o := s.operator()
		o.Output = "text"
		s.stdout.Reset()
		s.Must(o.Evidence(s.Ctx, dir))
		var want strings.Builder
		for _, name := range []string{"evidence.json", "shards.csv", "steps.csv", "timeline.csv", "index.html", "SHA256SUMS"} {
			want.WriteString(dir + "/" + name + "\n")
		}
		if s.stdout.String() != want.String() {
			t.Errorf("%s", &s.stdout)
		}
		content, err := os.ReadFile(filepath.Join(dir, "evidence.json"))
		s.Must(err)
		var d evidence.Document
		s.Must(json.Unmarshal(content, &d))
		if !slices.Equal(d.Versions, []string{"1.4.0", "1.5.0"}) || d.WrittenBy != "1.2.3" || d.Name != s.Config.Name || d.At.Sub(s.Now()).Abs() > time.Minute {
			t.Errorf("versions %v, written by %s of %s at %s", d.Versions, d.WrittenBy, d.Name, d.At)
		}
		got := map[string]string{}
		for _, table := range d.Tables {
			var shards []string
			for _, sh := range table.Shards {
				shards = append(shards, sh.ID)
			}
			got[table.Source] = fmt.Sprint(table.Targets, " ", shards, " ", len(table.Parked), " ", strings.HasPrefix(table.Parked[0], table.Source+"/"))
		}
		if wants := map[string]string{"Orders": "[orders] [more-Orders0 " + kit.Shard + "] 1 true", "Parts": "[parts] [more-Parts1 more-Parts2 " + kit.Shard + "] 2 true"}; !maps.Equal(got, wants) {
			t.Errorf("%v, want %v", got, wants)
		}
		o = s.operator()
		s.stdout.Reset()
		s.Must(o.Evidence(s.Ctx, dir+"2"))
		var shown evidence.Document
		s.Must(json.Unmarshal(s.stdout.Bytes(), &shown))
		if diff := cmp.Diff(d.Tables, shown.Tables); diff != "" {
			t.Errorf("the document differs from the file: %s", diff)
		}
	})
}
