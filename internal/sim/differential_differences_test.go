package sim

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// difference is something in which a model and its counterpart differ on purpose. It must be seen just as it is told here: one
// that is no more, or is another, fails.
type difference struct {
	name        string
	here, there string // what the model does, and its counterpart
	why         string // the model is right to differ
}

// Differences of the stream that are met in random lives.
const (
	behindLastTrimmed = "a position right behind the last trimmed change"
	goneBeforeExpired = "an old iterator of a shard that is gone"
)

var streamDifferences = []difference{
	{
		behindLastTrimmed, "fine", "GetShardIterator: trimmed",
		"The model trims exactly: nothing that follows is lost, so that a gap is declared only where there is one, and a checker can insist on it. The embedded service is as careful as a service may be.",
	},
	{
		goneBeforeExpired, "GetRecords: not found", "GetRecords: iterator expired",
		"Both are true of it, and which is told first is documented nowhere. Whoever is told that it expired seeks again, and is told the other.",
	},
}

// Each of these is tried on both sides.
var streamTrials = []struct {
	difference
	try func(l *life) (here, there string)
}{
	{difference{
		"a position below all of the shard's, as another shard's may be", "fine", "GetShardIterator: malformed",
		"Numbers of the model that restart make a mixed-up position a place in the shard, so that changes are skipped and a checker sees it; a refusal would hide the mistake.",
	}, foreignPosition},
	{difference{
		"a page of more than 1 MB", "3 changes", "1 changes",
		"Pages of the model are as small as a scenario likes, by number; nothing rests on what a page weighs.",
	}, heavyPage},
}

var bigtableDifferences = []struct {
	difference
	try func(b *both) (here, there string)
}{
	{difference{
		"an answer is lost", "CheckAndMutateRow: outcome unknown, executed", "applied, executed",
		"The point of the model: the emulator loses nothing.",
	}, func(b *both) (string, string) {
		b.model.LoseReply = 0.999999
		return b.put("a", "1")
	}},
	{difference{
		"a request is dropped", "CheckAndMutateRow: outcome unknown, not executed", "applied, executed",
		"The point of the model: the emulator loses nothing.",
	}, func(b *both) (string, string) {
		b.model.Drop = 0.999999
		return b.put("a", "1")
	}},
	{difference{
		"a request is executed after its caller gave up", "CheckAndMutateRow: outcome unknown, executed late", "applied, executed",
		"The point of the model: the emulator executes before it answers.",
	}, lateRequest},
	{difference{
		"a request is executed twice", "2 executions", "1 execution",
		"The point of the model: the emulator executes once.",
	}, twiceExecuted},
	{difference{
		"the server's clock steps back", "the older tombstone has the later time", "times rise",
		"The emulator has the clock of the machine.",
	}, clockBack},
	{difference{
		"a request that fails halfway", "CheckAndMutateRow: refused by the target, not executed", "CheckAndMutateRow: refused by the target, half executed",
		"A request is atomic at the service.",
	}, func(b *both) (string, string) {
		return b.try(sink.Request{Table: "t", Row: "a", Refuse: never, Ops: []sink.Op{
			{Kind: sink.SetCell, Family: "d", Qualifier: "x", Value: []byte("1")}, {Kind: sink.SetCell, Family: "absent", Qualifier: "x"},
		}}, "half executed")
	}},
	{difference{
		"a missing family is deleted from", "CheckAndMutateRow: refused by the target, not executed", "applied, not executed",
		"The service names families that do not exist as an error, whatever is asked of them.",
	}, func(b *both) (string, string) {
		return b.try(sink.Request{Table: "t", Row: "a", Refuse: never, Ops: []sink.Op{{Kind: sink.DeleteFamily, Family: "absent"}}}, "executed")
	}},
	{difference{
		"a missing family in a request that its predicate refuses", "CheckAndMutateRow: refused by the target, executed", "refused, executed",
		"The emulator looks at what it executes alone. A family that is missing must be told as soon as it is named.",
	}, func(b *both) (string, string) {
		b.put("a", "1")
		r := cell("a", "x", 0)
		r.Ops[0].Family, r.Refuse = "absent", sink.Predicate{Families: []string{"d"}, Qualifier: "x", AtLeast: "0"}
		return b.try(r, "executed")
	}},
	{difference{
		"an empty row key", "applied, executed", "CheckAndMutateRow: row rejected, not executed",
		"Rows come from package transform, which makes no such one; scenarios that need a rejected row inject it.",
	}, func(b *both) (string, string) { return b.try(cell("", "x", 0), "executed") }},
	{difference{
		"a time that is no whole millisecond", "1500", "1000",
		"Google's client cuts it off before it is sent, which none of our times needs. The model keeps what it is given, so that a checker can see one that does.",
	}, oddTime},
	{difference{
		"records are asked for their keys alone", "keys and data", "keys",
		"It saves bytes on a network that the model does not have. Callers may use of a record what they asked for.",
	}, keysOnly},
}

func cell(row, qualifier string, micros int64) sink.Request {
	return sink.Request{Table: "t", Row: row, Refuse: never, Ops: []sink.Op{
		{Kind: sink.SetCell, Family: "d", Qualifier: qualifier, Timestamp: micros, Value: []byte("1")},
	}}
}

func (l *life) differs(name, here, there string) {
	l.t.Helper()
	for _, d := range streamDifferences {
		if d.name == name {
			if here != d.here || there != d.there {
				l.fail("%s: %s here, %s there; told are %s and %s", name, here, there, d.here, d.there)
			}
			l.done[name]++
			return
		}
	}
	l.fail("%s is told nowhere", name)
}

func TestStreamDiffersAsTold(t *testing.T) {
	for i, d := range streamTrials {
		t.Run(d.name, func(t *testing.T) {
			l := newLife(t, uint64(i), types.StreamViewTypeNewAndOldImages)
			l.done = map[string]int{}
			here, there := d.try(l)
			d.check(t, here, there)
		})
	}
}

func TestBigtableDiffersAsTold(t *testing.T) {
	for i, d := range bigtableDifferences {
		t.Run(d.name, func(t *testing.T) {
			here, there := d.try(newBoth(t, uint64(i)))
			d.check(t, here, there)
		})
	}
}

func (d difference) check(t *testing.T, here, there string) {
	t.Helper()
	if here != d.here || there != d.there {
		t.Errorf("%q here, %q there; told are %q and %q", here, there, d.here, d.there)
	}
	if here == there {
		t.Error("there is no difference")
	}
}

// put stores a value in a row and tells what came of it.
func (b *both) put(row, value string) (here, there string) {
	r := cell(row, "x", 0)
	r.Ops[0].Value = []byte(value)
	return b.try(r, "executed")
}

// try sends a request and tells its outcome on both sides, and whether there is a row afterwards: executed is the word for that.
func (b *both) try(r sink.Request, executed string) (here, there string) {
	b.here(func(ctx context.Context) {
		applied, err := Target{b.model}.Apply(ctx, &r)
		here = applyOutcome(applied, err)
	})
	applied, err := b.there.Apply(b.ctx, &r)
	there = applyOutcome(applied, err)
	for _, side := range []struct {
		text *string
		rows func() int
	}{{&here, b.rowsHere}, {&there, b.rowsThere}} {
		if side.rows() > 0 {
			*side.text += ", " + executed
		} else {
			*side.text += ", not executed"
		}
	}
	return here, there
}

func applyOutcome(applied bool, err error) string {
	switch {
	case err != nil:
		return targetOutcome(err)
	case applied:
		return "applied"
	}
	return "refused"
}

func (b *both) rowsHere() int {
	n := 0
	b.here(func(ctx context.Context) {
		_ = Target{b.model}.ReadRows(ctx, "t", sink.Range{}, func(sink.Row) error { n++; return nil })
	})
	return n
}

func (b *both) rowsThere() int {
	n := 0
	if err := b.there.ReadRows(b.ctx, "t", sink.Range{}, func(sink.Row) error { n++; return nil }); err != nil {
		b.fail("%v", err)
	}
	return n
}

func lateRequest(b *both) (here, there string) {
	b.model.Late, b.model.LateBy = 0.999999, time.Hour
	here, there = b.put("a", "1")
	if strings.HasSuffix(here, ", not executed") {
		pass(b.world, 2*time.Hour)
		if b.rowsHere() == 1 {
			here = strings.Replace(here, "not executed", "executed late", 1)
		}
	}
	return here, there
}

func twiceExecuted(b *both) (here, there string) {
	b.model.Twice = 0.999999
	count := 0
	b.model.Executed = func(string, string, *Row, *Row) { count++ }
	b.put("a", "1")
	pass(b.world, time.Hour)
	// There it cannot be counted: but nothing stands between the client, which sends once, and the server.
	return fmt.Sprintf("%d executions", count), "1 execution"
}

func clockBack(b *both) (here, there string) {
	stamp := func(value string) {
		r := cell("a", "x", sink.ServerTime)
		r.Ops[0].Value = []byte(value)
		b.try(r, "executed")
	}
	stamp("first")
	b.model.ServerSkew = -time.Hour
	stamp("second")
	tell := func(newest string) string {
		if newest == "first" {
			return "the older tombstone has the later time"
		}
		return "times rise"
	}
	here, _ = b.model.Row("t", "a").Value("d", "x")
	err := b.there.ReadRows(b.ctx, "t", sink.Range{}, func(r sink.Row) error { there = string(r.Cells[0].Value); return nil })
	if err != nil {
		b.fail("%v", err)
	}
	return tell(here), tell(there)
}

func oddTime(b *both) (here, there string) {
	b.try(cell("a", "x", 1500), "executed")
	here = fmt.Sprint(b.model.Row("t", "a").Cells("d", "x")[0])
	err := b.there.ReadRows(b.ctx, "t", sink.Range{}, func(r sink.Row) error { there = fmt.Sprint(r.Cells[0].Timestamp); return nil })
	if err != nil {
		b.fail("%v", err)
	}
	return here, there
}

func keysOnly(b *both) (here, there string) {
	tell := func(text *string) func(string, []byte) error {
		return func(_ string, data []byte) error {
			*text = "keys"
			if data != nil {
				*text = "keys and data"
			}
			return nil
		}
	}
	b.here(func(ctx context.Context) {
		_ = Target{b.model}.Put(ctx, "k", []byte("data"))
		_ = Target{b.model}.Scan(ctx, "", true, tell(&here))
	})
	if err := b.records.Put(b.ctx, "k", []byte("data")); err != nil {
		b.fail("%v", err)
	}
	if err := b.records.Scan(b.ctx, "", true, tell(&there)); err != nil {
		b.fail("%v", err)
	}
	return here, there
}

// seekOutcome seeks on both sides.
func (l *life) seekOutcome(shard string, here, there cdc.SequenceNumber) (string, string) {
	p := l.current()
	_, errHere := outside{l.world, p.model}.Seek(l.t.Context(), shard, cdc.Position{After: here})
	_, errThere := p.other.Seek(l.t.Context(), p.shards[shard], cdc.Position{After: there})
	return fine(outcome(errHere)), fine(outcome(errThere))
}

func fine(outcome string) string {
	if outcome == "" {
		return "fine"
	}
	return outcome
}

func foreignPosition(l *life) (here, there string) {
	one := cdc.SequenceOf(1) // below every number of every shard
	return l.seekOutcome(l.current().model.Shards[0].ID, one, one)
}

func heavyPage(l *life) (here, there string) {
	pk := l.keys[0]
	for n := range 3 {
		item := attribute.NewItem([]attribute.Attribute{
			{Name: "pk", Value: attribute.String(pk)}, {Name: "n", Value: integer(n)}, {Name: "text", Value: attribute.String(strings.Repeat("x", 380_000))},
		})
		l.table.Put(item)
		l.other.put(item)
	}
	p := l.current()
	tell := func(s cdc.Source, shard string) string {
		at, err := s.Seek(l.t.Context(), shard, cdc.Position{})
		if err != nil {
			l.fail("%v", err)
		}
		page, err := s.Read(l.t.Context(), at)
		if err != nil {
			l.fail("%v", err)
		}
		return fmt.Sprintf("%d changes", len(page.Changes))
	}
	shard := p.model.Shards[0].ID
	return tell(outside{l.world, p.model}, shard), tell(p.other, p.shards[shard])
}
