package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/status"
)

func TestNextSteps(t *testing.T) {
	owned := checkpoint.Shard{ID: "1", Label: "L", State: checkpoint.Reading, Owner: "w1", ReadAt: ago(time.Second), CaughtUp: true}
	frozen, stuck, denied, free := owned, owned, owned, owned
	frozen.ReadAt, frozen.WrittenAt = ago(time.Hour), ago(time.Hour)
	stuck.ReadAt, stuck.WrittenAt = ago(time.Hour), ago(time.Second)
	denied.ReadAt, denied.AppliedTo, denied.WrittenAt = ago(19*time.Hour), ago(19*time.Hour), ago(time.Second)
	denied.Trouble = checkpoint.Trouble{Step: "read a shard", Cause: "DynamoDB: denied", Since: ago(19 * time.Hour)}
	free.ID, free.Owner, free.ReadAt = "2", "", ago(time.Hour)
	lost := loadedTable()
	lost.NeedsLoad = true
	for _, c := range []struct {
		name string
		in   status.TableInput
		want []string // commands
	}{
		{"nothing was started", status.TableInput{}, []string{"replicator run"}},
		{"all is well", status.TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{owned}}, nil},
		{"nobody reads", status.TableInput{Found: true, State: loadedTable()}, []string{"replicator run"}},
		{"whoever reads is silent", status.TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{frozen}}, []string{"replicator run"}},
		{"whoever reads lives, and does not get on", status.TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{stuck}},
			[]string{"replicator status --shards --table Orders"}},
		{"a shard that nobody takes", status.TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{owned, free}}, []string{"replicator run"}},
		{"reads are denied, and the headroom goes", status.TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{denied}},
			[]string{"replicator status --shards --table Orders"}},
		{"items are parked", status.TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{owned}, Parked: 2}, []string{"replicator parked list --table Orders"}},
		{"changes were lost", status.TableInput{Found: true, State: lost, Shards: []checkpoint.Shard{owned}}, []string{"replicator run -c OTHER.yaml"}},
	} {
		m := judged(c.in)
		var got []string
		for _, s := range m.NextSteps {
			got = append(got, s.Command)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		for _, command := range got {
			checkCommand(t, command)
		}
	}
	if m := judged(status.TableInput{Found: true, State: loadedTable(), Shards: []checkpoint.Shard{owned}}); len(m.Workers) != 1 || m.Leases != 1 {
		t.Errorf("%d workers with %d leases, want one of each", len(m.Workers), m.Leases)
	}
}

// checkCommand fails unless the command tree has the command with its flags.
func checkCommand(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(line)
	if len(words) < 2 || words[0] != "replicator" {
		t.Errorf("%q is no command of ours", line)
		return
	}
	c, rest, err := newRoot(process()).Find(words[1:])
	if err == nil && !c.HasParent() {
		err = errors.New("it names no command")
	}
	if err == nil {
		err = c.ParseFlags(rest)
	}
	if err == nil {
		err = c.ValidateArgs(c.Flags().Args())
	}
	if err != nil {
		t.Errorf("%q: %v", line, err)
	}
}

// TestNextStepsFindTheConfiguration: whoever copies a step gets the configuration that status was given.
func TestNextStepsFindTheConfiguration(t *testing.T) {
	for path, want := range map[string]string{
		"":            "replicator run",
		"a/b.yaml":    "replicator run -c a/b.yaml",
		"it's a.yaml": `replicator run -c 'it'\''s a.yaml'`,
	} {
		p := process()
		p.configPath = path
		l := &status.Input{Cfg: testConfig(), Tables: []config.Table{{From: "Orders", To: "Orders"}}, Inputs: []status.TableInput{{}}}
		if got := l.Judge(nothingSet, p.withConfig(), noon).NextSteps[0].Command; got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
