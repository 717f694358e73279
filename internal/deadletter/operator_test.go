package deadletter

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/apply"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// target is a target that only has a ledger.
type target struct {
	desk.Target
	store *checkpointtest.Memory
}

func (t target) Ledger(string) checkpoint.Store          { return t.store }
func (t target) Cluster(context.Context) (string, error) { return "c1", nil }
func (t target) Close() error                            { return nil }

// letter is a dead letter that returns two messages at a time.
type letter struct {
	waiting, held []relay.Delivery
	acked         []string
	fails         error // of Ack
}

func (l *letter) Pull(context.Context, int) ([]relay.Delivery, error) {
	n := min(2, len(l.waiting))
	got := l.waiting[:n]
	l.held = append(l.held, got...)
	l.waiting = l.waiting[n:]
	return slices.Clone(got), nil
}

func (l *letter) Ack(_ context.Context, ids []string) error {
	if l.fails == nil {
		l.acked = append(l.acked, ids...)
	}
	return l.fails
}

func (l *letter) Extend(_ context.Context, ids []string, by time.Duration) error {
	l.held = slices.DeleteFunc(l.held, func(d relay.Delivery) bool {
		back := by == 0 && slices.Contains(ids, d.ID)
		if back {
			l.waiting = append(l.waiting, d)
		}
		return back
	})
	return nil
}

func (l *letter) Close() error { return nil }

var at = time.Date(2026, 11, 27, 6, 0, 0, 0, time.UTC)

// played is a migration whose table Orders has applied the messages 1 to 3 of the 5 published
// messages of shard s. Its dead letter has a message of each state, one of them twice.
type played struct {
	*testing.T
	Operator
	letter *letter
	out    bytes.Buffer
	log    bytes.Buffer
}

func play(t *testing.T, output string) *played {
	t.Helper()
	p := &played{T: t, letter: &letter{}}
	nothing := func(string) (string, bool) { return "", false }
	cfg, err := config.Parse("f", []byte("version: 1\nname: test\ntarget: {project: p, instance: i}\ntables: [{from: Orders}]\n"), nothing)
	p.must(err)
	store := &checkpointtest.Memory{}
	ledger, err := checkpoint.Open(t.Context(), store, "test", checkpoint.Options{Worker: "w", ID: "l"})
	p.must(err)
	p.must(ledger.CheckCluster(t.Context(), "c1"))
	_, err = ledger.UpdateTable(t.Context(), "Orders", func(s *checkpoint.TableState) error {
		s.Generation, s.Label, s.Apply, s.Load.Generation = 7, "L", checkpoint.Topic, 7
		return nil
	})
	p.must(err)
	p.must(ledger.CreateShard(t.Context(), checkpoint.Shard{Source: "Orders", Label: "L", ID: "s", State: checkpoint.Waiting, Generation: 7, Hop: cdc.RootHop,
		Position: cdc.SequenceOf(5), Applied: 5, FirstRead: at}))
	run := checkpoint.Runs{{From: 1, To: 3}}
	p.must(ledger.NoteApplied(t.Context(), "Orders", []checkpoint.Applied{{Track: checkpoint.Track{Generation: 7, Label: "L", Shard: "s"}, Runs: run}}))
	p.must(ledger.MergeApplied(t.Context(), "Orders"))
	p.Operator = Operator{Console: &terminal.Console{Stdout: &p.out, Stderr: io.Discard, Output: output, Env: nothing}, Cfg: cfg, Log: slog.New(slog.NewTextHandler(&p.log, nil)), With: " -c f",
		Ends: desk.Ends{Target: func(context.Context, *config.Config) (desk.Target, error) { return target{store: store}, nil }},
		Open: func(context.Context) (Letter, error) { return p.letter, nil }}
	p.stands("missing", "", func(c *relay.Change) { c.Number, c.Sequence = 4, cdc.SequenceOf(4) })
	p.stands("applied", "", func(*relay.Change) {})
	p.stands("refused", "hop 9 differs from the shard's", func(c *relay.Change) { c.Hop = 9 })
	p.stands("elsewhere", "", func(c *relay.Change) { c.Ledger = "other" })
	p.letter.waiting = append(p.letter.waiting, relay.Delivery{ID: "poison", Data: []byte("secret")})
	p.stands("again", "", func(*relay.Change) {}) // of the applied one
	return p
}

func (p *played) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// stands puts a message into the dead letter.
func (p *played) stands(id, reason string, edit func(c *relay.Change)) {
	p.Helper()
	item := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("secret")}})
	c := relay.Change{Origin: relay.Origin{Ledger: "l", Table: "Orders", StreamARN: "arn", Label: "L", Shard: "s", Generation: 7, Hop: cdc.RootHop}, Number: 1, CellTime: at,
		Change: cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(1), Time: at, Keys: item, New: item}}
	edit(&c)
	m, _, err := relay.Encode(c)
	p.must(err)
	d := relay.Delivery{ID: id, Data: m.Data}
	if reason != "" {
		d.Attributes = map[string]string{relay.ReasonAttribute: reason}
	}
	p.letter.waiting = append(p.letter.waiting, d)
}

// stand returns the ids of the messages in the dead letter.
func (p *played) stand() string {
	var ids []string
	for _, d := range p.letter.waiting {
		ids = append(ids, d.ID)
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

const everything = "again applied elsewhere missing poison refused"

// A list shows each message once, with its state according to the ledger, and does not remove it.
// It shows no item data, and says how to repair a missing change.
func TestAListSaysWhatMessagesMean(t *testing.T) {
	for _, output := range []string{"text", "json"} {
		p := play(t, output)
		p.must(p.List(t.Context(), &Selection{}))
		if p.stand() != everything || len(p.letter.acked) > 0 {
			t.Errorf("%s: afterwards there are %s", output, p.stand())
		}
		text := p.out.String()
		if verify, load := strings.Index(text, "replicator verify --repair"), strings.Index(text, "replicator backfill redo"); verify > load {
			t.Errorf("%s: the load comes before the repair:\n%s", output, text)
		}
		if strings.Contains(text, "secret") || !strings.Contains(text, "replicator verify --repair --table Orders -c f") || !strings.Contains(text, "replicator backfill redo --table Orders -c f") {
			t.Errorf("%s:\n%s", output, text)
		}
		if output == "text" {
			if !strings.Contains(text, "1 change is missing") || !strings.Contains(text, "not a message of a relay") {
				t.Error(text)
			}
			continue
		}
		var d document
		p.must(json.Unmarshal(p.out.Bytes(), &d))
		var got []string
		for _, e := range d.Messages {
			got = append(got, fmt.Sprint(e.Table, " ", e.State, " ", e.Number, " ", len(e.KeyHash)))
			if len(e.Ref) != refDigits || e.Reason == "" {
				t.Errorf("%+v", e)
			}
		}
		slices.Sort(got)
		if want := []string{" foreign 0 0", "Orders applied 1 32", "Orders foreign 1 32", "Orders missing 4 32", "Orders refused 1 32"}; !slices.Equal(got, want) || d.Schema != "replicator.dead_letter/v1" {
			t.Errorf("%q", got)
		}
	}
}

// A dropped message is removed with its copies, and no other is. A missing change is never dropped
// silently. A dry run drops nothing, and reports the same.
func TestADropSaysWhatIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		s     Selection
		dry   bool
		left  string
		lost  int
		drops int
	}{
		"all":             {Selection{All: true}, false, "", 1, 5},
		"all of a table":  {Selection{All: true, Table: "Orders"}, false, "poison", 1, 4},
		"dry":             {Selection{All: true}, true, everything, 1, 5},
		"what is refused": {Selection{State: "refused"}, false, "again applied elsewhere missing poison", 0, 1},
		"what is missing": {Selection{State: "missing"}, false, "again applied elsewhere poison refused", 1, 1},
	} {
		for _, output := range []string{"text", "json"} {
			p := play(t, output)
			p.must(p.Drop(t.Context(), &c.s, c.dry, true))
			if p.stand() != c.left || c.dry != (len(p.letter.acked) == 0) {
				t.Errorf("%s: left are %q, acknowledged %q", name, p.stand(), p.letter.acked)
			}
			text := p.out.String()
			if tells := strings.Contains(text, "verify --repair --table Orders"); tells != (c.lost > 0) || strings.Contains(text+p.log.String(), "secret") {
				t.Errorf("%s:\n%s", name, text)
			}
			if logged := strings.Count(p.log.String(), "dropped dead-letter message"); logged != c.drops && !c.dry || c.dry && logged > 0 {
				t.Errorf("%s: %d are logged", name, logged)
			}
			if output == "json" {
				var d document
				p.must(json.Unmarshal(p.out.Bytes(), &d))
				if len(d.Dropped) != c.drops || *d.Lost != c.lost || *d.DryRun != c.dry || (len(d.Next) == 2) != (c.lost > 0) {
					t.Errorf("%s: %+v", name, d)
				}
			}
		}
	}
}

// No message is dropped by mistake: without --yes and a terminal nothing is dropped, and a failed
// drop reports none.
func TestADropThatFailsDropsNothing(t *testing.T) {
	p := play(t, "text")
	if err := p.Drop(t.Context(), &Selection{All: true}, false, false); err == nil || p.stand() != everything {
		t.Errorf("not asked: %v, left are %s", err, p.stand())
	}
	p.letter.fails = &relay.Error{Op: "Acknowledge", Name: "s", Reason: relay.Denied, Code: "PermissionDenied"}
	if err := p.Drop(t.Context(), &Selection{All: true}, false, true); !diag.Has(err, diag.TopicUnusable) || p.stand() != everything || p.out.Len() > 0 {
		t.Errorf("denied: %v, left are %s\n%s", err, p.stand(), &p.out)
	}
	p = play(t, "text")
	p.letter.waiting = nil
	p.must(p.Drop(t.Context(), &Selection{All: true}, false, false))
	p.must(p.List(t.Context(), &Selection{}))
	if p.out.String() != "0 messages dropped\nno messages found in the dead-letter topic\n" {
		t.Errorf("of nothing:\n%s", &p.out)
	}
}

// Messages are listed by table, and within a table in the order of their changes. Without a ledger,
// no message belongs to this migration.
func TestTheOrderOfAList(t *testing.T) {
	var all []*entry
	for _, name := range []string{"B 2", "A 3", "A 1", " 0", "B 1"} {
		table, n, _ := strings.Cut(name, " ")
		e := &entry{Ref: name, Table: table, State: apply.Foreign}
		e.change.Time = at.Add(time.Duration(n[0]) * time.Second)
		all = append(all, e)
	}
	if err := judge(t.Context(), nil, all); err != nil {
		t.Fatal(err)
	}
	var refs []string
	for _, e := range all {
		if refs = append(refs, e.Ref); e.State != apply.Foreign {
			t.Errorf("%s is %s", e.Ref, e.State)
		}
	}
	if want := []string{" 0", "A 1", "A 3", "B 1", "B 2"}; !slices.Equal(refs, want) {
		t.Errorf("%q, want %q", refs, want)
	}
}

// Each named message must exist exactly once.
func TestWhichMessagesAreMeant(t *testing.T) {
	for _, c := range []struct {
		s    Selection
		want string // part of the refusal
	}{
		{Selection{}, "needs the messages to work on"}, {Selection{Table: "Orders"}, "needs the messages to work on"}, {Selection{All: true}, ""}, {Selection{State: "applied"}, ""},
		{Selection{State: "lost"}, "is not a state"}, {Selection{Refs: []string{"0123456789"}}, ""}, {Selection{Refs: []string{"x"}, All: true}, "exclude each other"},
		{Selection{Refs: []string{"x"}, State: "applied"}, "exclude each other"},
	} {
		if err := c.s.Check("drop"); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.s, err)
		}
	}
	all := []*entry{{Ref: "0123456789abcdef", Table: "A"}, {Ref: "0123456799abcdef", Table: "B"}}
	for word, c := range map[string]struct {
		table string
		n     int
	}{"0123456789abcdef": {"", 1}, "012345678": {"", 1}, "01234567": {"", 0}, "0123": {"", 0}, "fedcba98": {"", 0}} {
		found, err := (&Selection{Refs: []string{word}, Table: c.table}).find(all)
		if len(found) != c.n || (err == nil) != (c.n > 0) {
			t.Errorf("%s: %d, %v", word, len(found), err)
		}
	}
	if found, err := (&Selection{Refs: []string{"01234567"}, Table: "B"}).find(all); err != nil || len(found) != 1 {
		t.Errorf("of one table: %v, %v", found, err)
	}
}
