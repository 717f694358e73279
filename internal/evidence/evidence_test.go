package evidence

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

var update = flag.Bool("update", false, "write the golden files anew")

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return noon.Add(d) }

func sequence(t *testing.T, text string) cdc.SequenceNumber {
	t.Helper()
	n, err := cdc.ParseSequenceNumber(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// input returns a cutover that was switched at the second call, with an override and a straggler.
func input(t *testing.T) Input {
	c := checkpoint.Cutover{
		CutoverPlan: checkpoint.CutoverPlan{
			Tables: []string{"Orders"}, Targets: []string{"orders"}, Hash: "0123abcd", Version: "1.4.0", By: "ops-1", KeepFallback: true,
			Lossy: []string{"Orders: column total"}, Overrides: []checkpoint.CutoverOverride{{Gate: "headroom", Reason: "quiet <shards>, change 4711"}}, WatchFor: 24 * time.Hour,
		},
		Attempt: 2, Step: checkpoint.CutoverWatching, BegunAt: noon, FreezeBegunAt: after(time.Second), FrozenAt: after(3 * time.Second), FencedAt: after(200 * time.Second),
		SwitchedAt: after(210 * time.Second), Fences: map[string]uint64{"orders": 8},
		Gates: []checkpoint.CutoverGate{{Name: "copy", Table: "Orders", Ready: true, Figure: "done"},
			{Name: "headroom", Table: "Orders", Figure: "11h0m0s", Cure: "replicator status", Overridden: "quiet <shards>, change 4711"}},
		Timeline: []checkpoint.CutoverEvent{{At: noon, Step: "requested", Text: "requested by ops-1"}, {At: after(time.Second), Step: "freeze", Text: "stopping the application's writes"},
			{At: after(210 * time.Second), Step: "watching", Text: "switched, according to the hook"}},
		Hooks: []checkpoint.CutoverHook{{Name: "freeze_writes", Token: "2.3.1", Began: after(time.Second), Ended: after(2500 * time.Millisecond), Outcome: "done", Output: "frozen"},
			{Name: "switch", Token: "2.7.2", Began: after(202 * time.Second), Ended: after(205 * time.Second), Outcome: "unknown", Output: "its time was up <b>"},
			{Name: "switch", Token: "2.7.3", Began: after(207 * time.Second), Ended: after(209 * time.Second), Outcome: "done"}},
		Proofs:  []checkpoint.CutoverProof{{Table: "Orders", Shard: "shardId-2", How: "a canary", Position: "200000000000000000001"}, {Table: "Orders", Shard: "shardId-0", How: "done, then two equal listings"}},
		GivenUp: []checkpoint.CutoverTry{{Attempt: 1, Reason: "process w may still write: it does not answer", FreezeBegunAt: after(-200 * time.Second), FrozenAt: after(-199 * time.Second), UnfrozenAt: after(-194 * time.Second)}},
		Strays:  1, Stragglers: []checkpoint.CutoverStraggler{{Table: "Orders", Key: "00112233445566778899aabbccddeeff", At: after(time.Minute)}},
		Verified: map[string]checkpoint.VerifyResult{"Orders": {Number: 3, Way: "buckets", BegunAt: after(time.Minute), EndedAt: after(3 * time.Minute), Generation: 5,
			VerifyCounts: checkpoint.VerifyCounts{Items: 10_000, Rows: 10_000, Compared: 10_000}}},
	}
	state := checkpoint.TableState{Source: "Orders", StreamARN: "arn:aws:dynamodb:eu-west-1:1:table/Orders/stream/l", Label: "l", Generation: 5, Adopted: 5, Base: 5, MappingHash: "beef", GapCount: 2,
		Gaps: []checkpoint.DeclaredGap{{At: after(-48 * time.Hour), Kind: checkpoint.KindStream, Shard: "shardId-0", Reason: "its position was trimmed", Generation: 4},
			{At: after(-time.Hour), Kind: checkpoint.KindStream, Shard: "shardId-2", Reason: "its position was trimmed", Generation: 5}}}
	return Input{Name: "acme", At: after(5 * time.Minute), Version: "1.4.1", Versions: []string{"1.4.1", "1.4.0", "1.4.1"}, Record: c, Tables: []TableInput{{
		State: state, Targets: []string{"orders"}, Parked: []string{"Orders/ffeeddccbbaa99887766554433221100/g1"},
		Shards: []checkpoint.Shard{{ID: "shardId-2", Parent: "shardId-1", State: checkpoint.Reading, Label: "l", Position: sequence(t, "200000000000000000002"), EventTime: after(2 * time.Second), Applied: 41},
			{ID: "shardId-1", State: checkpoint.Done, Label: "l"}},
	}}}
}

// The folder as it is. After a change, review the files of testdata.
func TestFolder(t *testing.T) {
	files, err := Files(NewDocument(input(t)), File{"verify.jsonl", []byte("{}\n")})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "evidence")
	if err := Write(dir, files); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		written, err := os.ReadFile(filepath.Join(dir, f.Name))
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", f.Name)
		if *update {
			if err := os.WriteFile(golden, written, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(written)); diff != "" {
			t.Errorf("%s: %s", f.Name, diff)
		}
	}
	sums := string(files[len(files)-1].Content)
	for _, f := range files[:len(files)-1] {
		if !strings.Contains(sums, sum(f.Content)+"  "+f.Name+"\n") {
			t.Errorf("%s is not summed", f.Name)
		}
	}
	if again, err := Files(NewDocument(input(t)), File{"verify.jsonl", []byte("{}\n")}); err != nil || !cmp.Equal(files, again) {
		t.Error("the same evidence is not rendered the same", err)
	}
	if err := Write(dir, files); !os.IsExist(err) {
		t.Errorf("evidence was overwritten: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), "*")); err != nil || len(left) != 1 {
		t.Error(left, err)
	}
}

func TestThePageStandsForItself(t *testing.T) {
	files, err := Files(NewDocument(input(t)))
	if err != nil {
		t.Fatal(err)
	}
	var page string
	for _, f := range files {
		if f.Name == pageFile {
			page = string(f.Content)
		}
	}
	for _, foreign := range []string{"<script", "src=", "href=", "url(", "@import", "<b>", "<shards>", "ZgotmplZ"} {
		if strings.Contains(page, foreign) {
			t.Errorf("the page holds %s", foreign)
		}
	}
	for _, want := range []string{"0123abcd", "1.4.0, 1.4.1", "2.7.3", "not repaired", "loaded again", "a canary", "200000000000000000002", "change 4711", "3m29s", "ffeeddccbbaa99887766554433221100", sum(files[0].Content)} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

func TestVerdicts(t *testing.T) {
	for step, good := range map[checkpoint.CutoverStep]bool{checkpoint.CutoverDone: true, checkpoint.CutoverRehearsed: true, checkpoint.CutoverCancelled: false, checkpoint.CutoverDrain: false} {
		in := input(t)
		in.Record.Step, in.Record.Strays = step, 0
		if d := NewDocument(in); d.Good() != good || d.Verdict() == "" {
			t.Errorf("%s: %v, %s", step, d.Good(), d.Verdict())
		}
		in.Record.Strays = 1
		if NewDocument(in).Good() {
			t.Errorf("%s is good though somebody wrote too late", step)
		}
	}
	for _, name := range []string{"../x", "a/b", sumsFile, pageFile, ".hidden", jsonFile, "timeline.csv"} {
		if _, err := Files(NewDocument(input(t)), File{name, nil}); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

// A proof applies only to the table that it names: shards of two tables may have the same name.
func TestProofsAreOfTheirTable(t *testing.T) {
	in := input(t)
	other := in.Tables[0]
	other.State.Source = "Parts"
	in.Tables = append(in.Tables, other)
	d := NewDocument(in)
	for _, table := range d.Tables {
		for _, s := range table.Shards {
			if proved := table.Source == "Orders" && s.ID != "shardId-1"; (s.Proof != "") != proved {
				t.Errorf("shard %s of table %s: proof %q", s.ID, table.Source, s.Proof)
			}
		}
	}
	if len(d.Tables) != 2 || len(d.Tables[0].Shards) != 3 || len(d.Tables[1].Shards) != 2 {
		t.Errorf("%+v", d.Tables)
	}
}

// The record leaves out the ancestors of proved shards. The evidence has them.
func TestTheProofsOfAncestorsAreEvidence(t *testing.T) {
	in := input(t)
	shards := append(in.Tables[0].Shards, checkpoint.Shard{ID: "shardId-a", State: checkpoint.Done, Complete: true})
	in.Tables[0].Shards = shards
	for i := range shards {
		if shards[i].ID == "shardId-1" {
			shards[i].Parent, shards[i].Complete = "shardId-a", true
		}
	}
	proofs := map[string]string{}
	for _, s := range NewDocument(in).Tables[0].Shards {
		proofs[s.ID] = s.Proof
	}
	if proofs["shardId-1"] != checkpoint.ProvedByChildren || proofs["shardId-a"] != checkpoint.ProvedByChildren || proofs["shardId-2"] != "a canary" {
		t.Errorf("%v", proofs)
	}
}

// The evidence of attempts that ended differently, by what could be read: nothing is omitted, and
// nothing unknown is shown as known.
func TestEvidenceOfACancelledRehearsal(t *testing.T) {
	in := input(t)
	c := &in.Record
	c.Step, c.Rehearse, c.Reason, c.Fences = checkpoint.CutoverCancelled, true, "not today", map[string]uint64{"orders": 0}
	c.UnfrozenAt, c.EndedAt = after(time.Minute).In(time.FixedZone("CET", 3600)), after(2*time.Minute)
	c.Verified = map[string]checkpoint.VerifyResult{"Orders": {}}
	other := in.Tables[0]
	other.State.Source = "Items"
	in.Tables = append(in.Tables, other)
	versions := append([]string{}, in.Versions...)
	d := NewDocument(in)
	if !d.Rehearse || d.Reason != "not today" || d.UnfrozenAt == nil || d.UnfrozenAt.Location() != time.UTC || !d.UnfrozenAt.Equal(c.UnfrozenAt) || d.EndedAt == nil || !d.EndedAt.Equal(c.EndedAt) {
		t.Errorf("%+v", d)
	}
	if len(d.Fences) > 0 || d.Tables[0].Source != "Items" || d.Tables[0].Verified != nil || d.Tables[1].Verified != nil {
		t.Errorf("fences %+v, tables %+v", d.Fences, d.Tables)
	}
	for _, s := range d.Tables[1].Shards {
		if s.ID == "shardId-0" && (s.State != "removed since" || s.Proof == "") || s.ID == "shardId-2" && s.Proved != "200000000000000000001" {
			t.Errorf("%+v", s)
		}
	}
	if !cmp.Equal(versions, in.Versions) {
		t.Errorf("the versions that were given are changed: %v", in.Versions)
	}
	in.Tables, in.Record = nil, checkpoint.Cutover{}
	if d := NewDocument(in); d.Tables == nil || d.BegunAt != nil || d.Gates == nil {
		t.Errorf("of nothing: %+v", d)
	}
	in.Record.Step = checkpoint.CutoverWatching
	if !NewDocument(in).Good() {
		t.Error("an application that has switched is not good")
	}
	for _, name := range []string{"a/b", pageFile} {
		if _, err := Files(d, File{name, nil}); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if instant(nil) != "" || instant(&time.Time{}) != "" {
		t.Error("an unknown time is shown")
	}
	dir := t.TempDir()
	if err := Write(dir, nil); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("the folder that is there is not named: %v", err)
	}
}

// Each step has a line with its length, also those of tries that were abandoned. The present step has no
// end, and the last one of an attempt that is over ends with it.
func TestStepsHaveTheirLengths(t *testing.T) {
	event := func(d time.Duration, step string) checkpoint.CutoverEvent {
		return checkpoint.CutoverEvent{At: after(d), Step: step, Text: "to " + step}
	}
	c := checkpoint.Cutover{Step: checkpoint.CutoverCancelling, Timeline: []checkpoint.CutoverEvent{
		event(0, "checks"), event(time.Second, "checks"), event(3*time.Second, "drain"), event(7500*time.Millisecond, "cancelling"), event(8*time.Second, "checks"), event(9*time.Second, "cancelling")}}
	text := func() string {
		csv := string((&Document{Steps: steps(c)}).steps())
		return strings.ReplaceAll(strings.ReplaceAll(csv, "2026-11-25T12:00:", ""), "step,begun_at,ended_at,seconds,why\n", "")
	}
	want := "checks,00.000Z,03.000Z,3.0,to checks\ndrain,03.000Z,07.500Z,4.5,to drain\ncancelling,07.500Z,08.000Z,0.5,to cancelling\nchecks,08.000Z,09.000Z,1.0,to checks\ncancelling,09.000Z,"
	if got := text(); got != want+",,to cancelling\n" {
		t.Errorf("got\n%s", got)
	}
	c.Step, c.EndedAt = checkpoint.CutoverCancelled, after(10*time.Second)
	if got := text(); got != want+"10.000Z,1.0,to cancelling\n" {
		t.Errorf("at the end\n%s", got)
	}
}
