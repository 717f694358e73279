package worker

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/status"
)

// stands has every state of the closed list at least once: the ledger's records, and the goals that
// a table in this state has reached. The goal in_sync has the exit status of --exit-code.
var stands = []struct {
	state  standing.State
	name   string
	change func(in *status.Input, of *status.TableInput)
	goals  string // that are reached
}{
	{standing.InSync, "in sync", func(*status.Input, *status.TableInput) {}, "in_sync copied"},
	{standing.Done, "done", at(checkpoint.CutoverDone), "in_sync copied done"},
	{standing.Done, "done, and nobody runs any more", func(in *status.Input, of *status.TableInput) {
		at(checkpoint.CutoverDone)(in, of)
		unread(of)
		of.Shards[0].WrittenAt, of.Parked = ago(time.Minute), 1
	}, "in_sync copied done"},
	{standing.Done, "finalized, in trouble at the end", func(in *status.Input, of *status.TableInput) {
		at(checkpoint.CutoverDone)(in, of)
		in.Cutovers[0].FinalizedAt = noon
		of.State.NeedsLoad, of.State.Suspended.Reason, of.State.Pause.Since = true, "its stream was disabled", ago(time.Hour)
		of.Coordinator.Heartbeat.Trouble = checkpoint.Trouble{Step: "list shards", Cause: "denied", Since: ago(time.Minute)}
		of.Shards[0].Trouble = checkpoint.Trouble{Step: "read a shard", Cause: "denied", Since: ago(time.Minute)}
	}, "in_sync copied done"},
	{standing.Cutover, "frozen", at(checkpoint.CutoverDrain), "copied"},
	{standing.Cutover, "being switched", at(checkpoint.CutoverSwitching), "copied"},
	{standing.Cutover, "watched", at(checkpoint.CutoverWatching), "copied"},
	{standing.Unknown, "another cluster", func(in *status.Input, _ *status.TableInput) { in.Elsewhere = "it leads to c2" }, ""},
	{standing.Unknown, "read in the future", func(_ *status.Input, of *status.TableInput) {
		of.Shards[0].ReadAt, of.Shards[0].AppliedTo = noon.Add(time.Hour), noon.Add(time.Hour)
	}, ""},
	{standing.Paused, "paused", func(_ *status.Input, of *status.TableInput) { of.State.Pause.Since = ago(time.Minute) }, ""},
	{standing.NeedsLoad, "a gap", func(_ *status.Input, of *status.TableInput) {
		of.State.NeedsLoad, of.State.Reason, of.State.Kind = true, "trimmed", checkpoint.KindStream
	}, ""},
	{standing.NeedsLoad, "a gap that no worker declared", func(_ *status.Input, of *status.TableInput) {
		of.Shards = append(of.Shards, checkpoint.Shard{ID: "g", Label: "L", State: checkpoint.Gap, Loss: checkpoint.NotFound, Generation: 7, DoneAt: ago(time.Minute)})
	}, ""},
	{standing.Stalled, "the worker is silent", func(_ *status.Input, of *status.TableInput) {
		unread(of)
		of.Shards[0].WrittenAt = ago(time.Minute)
	}, ""},
	{standing.Stalled, "nobody holds the shard", func(_ *status.Input, of *status.TableInput) {
		unread(of)
		of.Shards[0].Owner = ""
	}, ""},
	{standing.Stalled, "reads are denied", func(_ *status.Input, of *status.TableInput) {
		unread(of)
		of.Shards[0].Trouble = checkpoint.Trouble{Step: "read a shard", Cause: "denied", Since: ago(time.Minute)}
	}, ""},
	{standing.Stalled, "the coordinator cannot list", func(_ *status.Input, of *status.TableInput) {
		of.Coordinator.Heartbeat.Trouble = checkpoint.Trouble{Step: "list shards", Cause: "denied", Since: ago(time.Minute)}
	}, ""},
	{standing.Stalled, "messages in the dead letter", func(_ *status.Input, of *status.TableInput) {
		of.State.Apply, of.Dead = checkpoint.Topic, checkpoint.DeadLetter{Messages: 2, Since: ago(time.Hour)}
	}, ""},
	{standing.Preparing, "no worker has met it", func(_ *status.Input, of *status.TableInput) { *of = status.TableInput{} }, ""},
	{standing.Preparing, "not listed yet", func(_ *status.Input, of *status.TableInput) {
		of.State.Listed, of.Shards, of.State.Generation = 0, nil, uint32(noon.Unix()/60)
	}, ""},
	{standing.Copying, "copying", func(_ *status.Input, of *status.TableInput) {
		of.State.Base, of.State.Load.DoneAt, of.State.Load.SweptAt = 0, time.Time{}, time.Time{}
	}, ""},
	{standing.Sweeping, "sweeping", func(_ *status.Input, of *status.TableInput) {
		of.State.Base, of.State.Load.SweptAt = 0, time.Time{}
	}, "copied"},
	{standing.Sweeping, "a sweep that waits for its answer", func(_ *status.Input, of *status.TableInput) {
		of.State.Base, of.State.Load.SweptAt, of.State.Load.Sweep.Waiting = 0, time.Time{}, true
	}, "copied"},
	{standing.Parked, "parked", func(_ *status.Input, of *status.TableInput) { of.Parked = 1 }, "copied"},
	{standing.Differs, "a verify found rows", func(_ *status.Input, of *status.TableInput) { of.State.Verify.Result.Missing = 2 }, "copied"},
	{standing.Differs, "a full verify found rows", func(_ *status.Input, of *status.TableInput) { of.State.Verify.Full.Missing = 1 }, "copied"},
	{standing.Differs, "a sample did", func(_ *status.Input, of *status.TableInput) {
		of.State.Sampled = checkpoint.Sampled{At: ago(time.Minute), Differing: 1}
	}, "copied"},
	{standing.CatchingUp, "behind", func(_ *status.Input, of *status.TableInput) {
		of.Shards[0].AppliedTo, of.Shards[0].EventTime, of.Shards[0].CaughtUp = time.Time{}, ago(time.Minute), false
	}, "copied"},
	{standing.CatchingUp, "messages wait in the topic", func(_ *status.Input, of *status.TableInput) {
		of.State.Apply, of.Shards[0].Apply, of.Shards[0].Applied = checkpoint.Topic, checkpoint.Topic, 5
	}, "copied"},
	{standing.CatchingUp, "a generation is not adopted", func(_ *status.Input, of *status.TableInput) { of.State.Adopted = 6 }, "copied"},
}

// unread moves a minute on since the shard was read.
func unread(of *status.TableInput) {
	of.Shards[0].ReadAt, of.Shards[0].AppliedTo = ago(time.Minute), ago(time.Minute)
}

// at puts a cutover of the table at a step.
func at(step checkpoint.CutoverStep) func(in *status.Input, of *status.TableInput) {
	return func(in *status.Input, _ *status.TableInput) {
		in.Cutovers = checkpoint.Cutovers{checkpoint.Cutover{Attempt: 1, Step: step, FreezeBegunAt: ago(time.Hour)}}
		in.Cutovers[0].Tables = []string{"Orders"}
		if step.Switched() {
			in.Cutovers[0].SwitchedAt = ago(time.Minute)
		}
	}
}

// inSync returns the ledger's records of a table that is in sync and could be cut over.
func inSync() (*status.Input, *status.TableInput) {
	s := loadedTable()
	s.Base, s.Load.SweptAt, s.Load.Number, s.Load.Parts = 7, ago(40*time.Minute), 1, 1
	s.Verify.Result = checkpoint.VerifyResult{Number: 1, EndedAt: ago(30 * time.Minute), Generation: 7}
	s.Verify.Full = s.Verify.Result
	shard := held("s", "w", ago(time.Second))
	shard.ReadAt, shard.AppliedTo, shard.FirstRead, shard.CaughtUp = ago(time.Second), ago(time.Second), ago(time.Hour), true
	shard.Position, shard.Generation = cdc.SequenceOf(9), 7
	of := status.TableInput{Found: true, State: s, Shards: []checkpoint.Shard{shard}, Targets: []checkpoint.Target{{Table: "Orders", Fence: 7}},
		Coordinator: status.CoordinatorInput{Owner: "w", Heartbeat: checkpoint.Heartbeat{WrittenAt: ago(time.Second)}}}
	in := &status.Input{Cfg: testConfig(), Begun: true, Tables: []config.Table{{From: "Orders", To: "Orders"}}, Inputs: []status.TableInput{of}}
	return in, &in.Inputs[0]
}

// Text, JSON, page, metric, gates and exit status name each state with the same word.
func TestEveryStateIsOneWordEverywhere(t *testing.T) {
	found := map[standing.State]bool{}
	for _, c := range stands {
		found[c.state] = true
		in, of := inSync()
		c.change(in, of)
		m := in.Judge(nothingSet, "", noon)
		for place, said := range said(t, m) {
			if said != string(c.state) {
				t.Errorf("%s: %s says %q, want %q", c.name, place, said, c.state)
			}
		}
		if ready := m.Cutover.Ready; ready != (c.state == standing.InSync) {
			t.Errorf("%s: ready for a cutover: %t, open gates %v", c.name, ready, m.Cutover.OpenGates)
		}
		if of := m.Tables[0]; c.state == standing.Done && (len(of.Troubles)+len(of.Throttled) > 0 || of.Paused != nil || of.LoadNeeded || m.Verdict() != nil) {
			t.Errorf("%s: there is trouble: %+v, %v", c.name, of.Troubles, m.Verdict())
		}
		for _, g := range standing.Goals {
			err, reached := m.Reached(g), strings.Contains(" "+c.goals+" ", " "+string(g)+" ")
			if (err == nil) != reached || !reached && diag.ExitCode(err) != 3 {
				t.Errorf("%s: goal %s: %v", c.name, g, err)
			}
		}
	}
	for _, s := range standing.States {
		if !found[s] {
			t.Errorf("no case of %s", s)
		}
	}
}

// said returns the state that each place names, as the word for programs.
func said(t *testing.T, m *status.Document) map[string]string {
	t.Helper()
	out := map[string]string{}
	var text strings.Builder
	if err := m.Render(&text, true); err != nil {
		t.Fatal(err)
	}
	out["text"] = worded(submatch(`^test   phase [1-5] of 5: (.*?)   `, text.String()))

	var document struct {
		State  string
		Tables []struct{ State string }
	}
	raw, err := json.Marshal(m)
	if err == nil {
		err = json.Unmarshal(raw, &document)
	}
	if err != nil {
		t.Fatal(err)
	}
	out["JSON"], out["JSON of the table"] = document.State, document.Tables[0].State

	metrics := admin.NewMetrics("orders", admin.Build{})
	o := newObserver(time.Now, "w", metrics, admin.NewHealth(time.Now, "Orders"), slog.New(slog.DiscardHandler), backfill.NewRenderer(io.Discard, nil), []string{"Orders"})
	o.surveyed(m, nil)
	o.board.Show(m, true, noon)
	w := httptest.NewRecorder()
	o.board.Page().ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	for id, place := range map[string]string{"verdict": "page", "table-Orders-state": "page's row"} {
		found := regexp.MustCompile(fmt.Sprintf(`id="%s" data-value="(\w*)".*?</span> (.*?)</span>`, id)).FindStringSubmatch(w.Body.String())
		if found == nil || !strings.HasPrefix(strings.ToLower(found[2]), standing.State(found[1]).Text()) {
			t.Errorf("the %s has %q", place, found)
			continue
		}
		out[place] = found[1]
	}

	w = httptest.NewRecorder()
	metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	var held []string
	for _, f := range regexp.MustCompile(`(?m)^replicator_state\{.*state="(\w+)".*\} 1$`).FindAllStringSubmatch(w.Body.String(), -1) {
		held = append(held, f[1])
	}
	out["metric"] = strings.Join(held, " ")
	return out
}

// worded returns the state that a text for people names.
func worded(text string) string {
	for _, s := range standing.States {
		if s.Text() == text {
			return string(s)
		}
	}
	return "no state: " + text
}

// submatch returns the match of an expression's first group in a text.
func submatch(expression, text string) string {
	if found := regexp.MustCompile(expression).FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}
