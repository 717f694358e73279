package evidence

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Each member of the document has its own source in the record and in the ledger.
func TestEachMemberHasItsOwnSource(t *testing.T) {
	local := func(minute int) time.Time {
		return after(time.Duration(minute) * time.Minute).In(time.FixedZone("CET", 3600))
	}
	utc := func(minute int) *time.Time {
		at := local(minute).UTC()
		return &at
	}
	gates := []checkpoint.CutoverGate{{Name: "lag", Table: "Orders", Figure: "1s"}}
	overrides := []checkpoint.CutoverOverride{{Gate: "lag", Reason: "known"}}
	timeline := []checkpoint.CutoverEvent{{At: local(20), Step: "drain", Text: "draining"}, {At: local(19), Step: "done", Text: "back in time"}}
	hooks := []checkpoint.CutoverHook{{Name: "switch", Token: "7.7.1", Began: local(21), Ended: local(22), Outcome: "done"}}
	tries := []checkpoint.CutoverTry{{Attempt: 6, Reason: "busy"}}
	strays := []checkpoint.CutoverStraggler{{Table: "Orders", Key: "k", At: local(23)}}
	in := Input{Name: "acme", At: local(60), Version: "1.6", Versions: []string{"1.5", "1.4", "1.5"}, Record: checkpoint.Cutover{
		CutoverPlan: checkpoint.CutoverPlan{Group: "shop", Tables: []string{"Orders"}, Targets: []string{"b", "c", "a"}, Hash: "hash", Version: "1.3", By: "ops", KeepFallback: true, Rehearse: true, Lossy: []string{"types"},
			Overrides: overrides, WatchFor: 3 * time.Hour},
		Attempt: 7, Step: checkpoint.CutoverDone, Reason: "the reason", BegunAt: local(1), FreezeBegunAt: local(2), FrozenAt: local(3), FencedAt: local(4), GoneAt: local(5), SwitchedAt: local(6),
		UnfrozenAt: local(9), EndedAt: local(30), FinalizedAt: local(40), Fences: map[string]uint64{"a": 1, "b": 2, "c": 0, "d": 4}, Gates: gates, Timeline: timeline, Hooks: hooks, GivenUp: tries, Strays: 5, Stragglers: strays,
		Verified: map[string]checkpoint.VerifyResult{"Orders": {Number: 3, Way: "buckets", BegunAt: local(11), EndedAt: local(12), Generation: 5,
			VerifyCounts: checkpoint.VerifyCounts{Items: 21, Rows: 22, Compared: 23, Missing: 24, Different: 25, Extra: 26, Foreign: 27, InFlight: 28}}},
		Proofs: []checkpoint.CutoverProof{{Table: "Orders", Shard: "s4", How: "a canary", Position: "4"}, {Table: "Orders", Shard: "s0", How: "gone", Position: "9"}},
	}, Tables: []TableInput{
		{State: checkpoint.TableState{Source: "Parts"}, Targets: []string{"c"}},
		{State: checkpoint.TableState{Source: "Orders", StreamARN: "arn", Label: "l", Generation: 9, Adopted: 8, Base: 7, MappingHash: "mapped", GapCount: 12, Gaps: []checkpoint.DeclaredGap{
			{At: local(31), Kind: checkpoint.KindStream, Shard: "s1", Reason: "trimmed", Generation: 6}, {At: local(32), Kind: checkpoint.KindStream, Shard: "s2", Reason: "lost", Generation: 7}}},
			Targets: []string{"b", "a"}, Parked: []string{"p2", "p1", "p2"}, Shards: []checkpoint.Shard{
				{ID: "s4", Source: "Orders", Parent: "s3", State: checkpoint.Reading, Position: sequence(t, "5"), EventTime: local(33), Applied: 41},
				{ID: "s3", Source: "Orders", Parent: "s2", State: checkpoint.Done, Complete: true, Position: sequence(t, "3"), EventTime: local(34), Applied: 42},
				{ID: "s2", Source: "Orders", Parent: "s1", State: checkpoint.Done, Position: sequence(t, "2")}, // its children are not all known
				{ID: "s1", Source: "Orders", State: checkpoint.Done, Complete: true},
			}},
	}}
	seconds := []float64{0, 660}
	want := &Document{
		Schema: "replicator.evidence/v1", Name: "acme", Group: "shop", At: *utc(60), Attempt: 7, Step: "done", Rehearse: true, Reason: "the reason", ConfigurationHash: "hash", Version: "1.3", WrittenBy: "1.6",
		Versions: []string{"1.4", "1.5"}, StartedBy: "ops", KeepFallback: true, Lossy: []string{"types"}, BegunAt: utc(1), FreezeBegunAt: utc(2), FrozenAt: utc(3), FencedAt: utc(4), SwitchedAt: utc(6), UnfrozenAt: utc(9), EndedAt: utc(30),
		FrozenSeconds: 7 * 60, WatchSeconds: 3 * 3600, Gates: gates, Overrides: overrides, Fences: []Fence{{"b", 2}, {"a", 1}}, Timeline: timeline, Hooks: hooks, GivenUp: tries, Strays: 5, Stragglers: strays,
		Steps: []Step{{Step: "drain", BegunAt: *utc(20), EndedAt: utc(19), Seconds: &seconds[0], Text: "draining"}, {Step: "done", BegunAt: *utc(19), EndedAt: utc(30), Seconds: &seconds[1], Text: "back in time"}},
		Tables: []Table{
			{Source: "Orders", Targets: []string{"b", "a"}, Stream: "arn", Generation: 9, Loaded: 7, MappingHash: "mapped", GapCount: 12, Parked: []string{"p1", "p2"}, Gaps: []Gap{
				{At: *utc(31), Kind: string(checkpoint.KindStream), Shard: "s1", Reason: "trimmed", Generation: 6, Mended: "loaded again: the last finished load has a later generation"},
				{At: *utc(32), Kind: string(checkpoint.KindStream), Shard: "s2", Reason: "lost", Generation: 7}},
				Verified: &Verified{Verdict: in.Record.Verified["Orders"].Verdict(local(12)), Way: "buckets", BegunAt: *utc(11), EndedAt: *utc(12), Items: 21, Rows: 22, Compared: 23, Missing: 24, Different: 25, Extra: 26, Foreign: 27, InFlight: 28},
				Shards: []Shard{{ID: "s0", State: "removed since", Proof: "gone", Proved: "9"}, {ID: "s1", State: "done"}, {ID: "s2", Parent: "s1", State: "done", Position: "2"},
					{ID: "s3", Parent: "s2", State: "done", Position: "3", Latest: utc(34), Applied: 42, Proof: checkpoint.ProvedByChildren, Proved: "3"},
					{ID: "s4", Parent: "s3", State: "reading", Position: "5", Latest: utc(33), Applied: 41, Proof: "a canary", Proved: "4"}}},
			{Source: "Parts", Targets: []string{"c"}, Gaps: []Gap{}, Parked: []string{}, Shards: []Shard{}},
		},
	}
	if diff := cmp.Diff(want, NewDocument(in)); diff != "" {
		t.Error(diff)
	}
	in.Record.Step = checkpoint.CutoverCancelling // an attempt that runs has no end, whatever a former one left
	if steps := NewDocument(in).Steps; steps[1].EndedAt != nil || steps[1].Seconds != nil {
		t.Errorf("%+v", steps[1])
	}
}

// A shard that has a proof of its own keeps it, also if one of its descendants has a proof.
func TestAShardKeepsItsOwnProof(t *testing.T) {
	in := input(t)
	in.Record.Proofs = append(in.Record.Proofs, checkpoint.CutoverProof{Table: "Orders", Shard: "shardId-1", How: "empty pages", Position: "7"})
	for i := range in.Tables[0].Shards {
		if sh := &in.Tables[0].Shards[i]; sh.ID == "shardId-1" {
			sh.Complete = true
		}
	}
	for _, s := range NewDocument(in).Tables[0].Shards {
		if s.ID == "shardId-1" && (s.Proof != "empty pages" || s.Proved != "7") {
			t.Errorf("%+v", s)
		}
	}
}

// The events are in the order of their times, calls of hooks where they began. Each has what its
// kind has.
func TestEventsAreInOrder(t *testing.T) {
	d := &Document{
		Timeline: []checkpoint.CutoverEvent{{At: after(time.Second), Step: "freeze", Text: "freezing"}, {At: after(9 * time.Second), Step: "drain", Text: "draining", By: "ann"}},
		Hooks:    []checkpoint.CutoverHook{{Name: "switch", Token: "1.2", Began: after(8 * time.Second), Ended: after(10*time.Second + 1234567*time.Microsecond), Outcome: "done", Output: "out"}},
	}
	want := "at,step,what,token,outcome,took\n2026-11-25T12:00:01.000Z,freeze,freezing,,,\n2026-11-25T12:00:08.000Z,,hook switch,1.2,done,3.235s\n2026-11-25T12:00:09.000Z,drain,draining (ann),,,\n"
	if got := string(d.timeline()); got != want {
		t.Errorf("%s", got)
	}
	if out := d.Events()[1].Output; out != "out" {
		t.Errorf("output %q", out)
	}
}

// A reader of the page learns the outcome from one sentence. The length of the freeze has tenths of
// seconds.
func TestTheOutcomeInASentence(t *testing.T) {
	for step, want := range map[string]string{
		"watching":  "The application has switched. replicator still watches for late writers.",
		"done":      "The application has switched, and the watch for late writers is over.",
		"cancelled": "The cutover was cancelled: not today",
		"rehearsed": "The rehearsal is complete. The application was neither stopped nor switched.",
		"drain":     "The cutover is running, at step drain.",
	} {
		if got := (&Document{Step: step, Reason: "not today"}).Verdict(); got != want {
			t.Errorf("%s: %s", step, got)
		}
	}
	for step, good := range map[string]bool{"watching": true, "done": true, "rehearsed": true, "cancelled": false, "drain": false} {
		if (&Document{Step: step}).Good() != good || (&Document{Step: step, Strays: 1}).Good() {
			t.Errorf("%s is judged wrongly", step)
		}
	}
	for seconds, want := range map[float64]string{0: "0s", 7.26: "7.3s", 61: "1m1s"} {
		if got := (&Document{FrozenSeconds: seconds}).FrozenFor(); got != want {
			t.Errorf("%g: %s", seconds, got)
		}
	}
}

// A folder that cannot be written leaves nothing behind, and only its owner may read one.
func TestAFolderIsWrittenWholeOrNotAtAll(t *testing.T) {
	root := t.TempDir()
	if err := Write(filepath.Join(root, "e"), []File{{"a", []byte("x")}, {"b/c", nil}}); err == nil {
		t.Error("a file in a folder that is not there was written")
	}
	if err := Write(filepath.Join(root, "none", "e"), nil); err == nil {
		t.Error("a folder in a folder that is not there was written")
	}
	if left, err := os.ReadDir(root); err != nil || len(left) != 0 {
		t.Errorf("%v was left, %v", left, err)
	}
	if err := Write(filepath.Join(root, "e"), []File{{"a", []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"e": 0o700, "e/a": 0o600} {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// The checksums cover each file but their own, in the order of the folder, which ends with them.
func TestTheOrderOfTheFolder(t *testing.T) {
	files, err := Files(NewDocument(input(t)), File{"verify.jsonl", []byte("{}\n")})
	if err != nil {
		t.Fatal(err)
	}
	var names, summed []string
	for _, f := range files {
		names = append(names, f.Name)
	}
	for line := range strings.Lines(string(files[len(files)-1].Content)) {
		summed = append(summed, strings.TrimSpace(line[64:]))
	}
	want := []string{"evidence.json", "shards.csv", "steps.csv", "timeline.csv", "verify.jsonl", "index.html", "SHA256SUMS"}
	if !cmp.Equal(names, want) || !cmp.Equal(summed, want[:len(want)-1]) {
		t.Errorf("%v, sums of %v", names, summed)
	}
}
