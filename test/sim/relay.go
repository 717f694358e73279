package sim

import (
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// relaying is a run whose workers publish what they apply, with the content of the topic, and a
// consumer that only knows the topic.
type relaying struct {
	s     *simulation
	topic *model.Topic

	sent     map[string]bool                       // published records, by label, shard and sequence number
	newest   map[string]cdc.SequenceNumber         // by label, shard and item, the last record at its first publication; by label and shard, the same for any item
	numbers  map[numbering]map[uint64]relay.Change // by number
	read     map[string]cdc.SequenceNumber         // by label and shard, the checkpoint
	held     map[string]relay.Change               // the consumer's items
	appliers *appliers                             // nil if the readers write
	outage   time.Duration                         // until then the topic does not answer
	hired    int
}

// numbering is the scope of message numbers.
type numbering struct {
	ledger       string
	generation   uint32
	label, shard string
}

// newRelaying makes the workers of a run publish, to a topic with its own faults.
func newRelaying(s *simulation) *relaying {
	r := &relaying{s: s, topic: model.NewTopic(s.World), sent: map[string]bool{}, newest: map[string]cdc.SequenceNumber{},
		numbers: map[numbering]map[uint64]relay.Change{}, read: map[string]cdc.SequenceNumber{}, held: map[string]relay.Change{}}
	rng := stream(s.plan.seed, "topic")
	part := func(most float64) float64 {
		if rng.IntN(2) == 0 {
			return 0
		}
		return most * rng.Float64()
	}
	r.topic.Fail, r.topic.LoseReply, r.topic.Late = part(0.2), part(0.2), part(0.1)
	r.topic.Down = func() bool { return s.World.Elapsed() < r.outage }
	r.topic.Stored = r.stored
	if rng.IntN(2) == 0 {
		begins, long := time.Duration(rng.Int64N(int64(s.plan.length))), time.Duration(rng.Int64N(int64(3*time.Hour)))
		s.World.After(begins, func() {
			s.World.Inject("topic away")
			r.outage = s.World.Elapsed() + long
			s.begun = max(s.begun, r.outage)
		})
	}
	return r
}

// hire sets the options of a worker of the run. Every other worker wants a key for each item, so the
// keys change whenever another worker coordinates the table.
func (r *relaying) hire(o *engine.Options) {
	o.Mode, o.Topic, o.Keying = checkpoint.Both, r.topic, relay.Keying(r.hired%2*3)
	r.hired++
	if r.appliers != nil {
		o.Mode, o.Kept = checkpoint.Topic, r.appliers.subscription.Kept
	}
}

func (r *relaying) peace() {
	r.topic.Fail, r.topic.LoseReply, r.topic.Late = 0, 0, 0
	if r.appliers != nil {
		r.appliers.peace()
	}
}

// stored compares each message with the source (H58, I11).
func (r *relaying) stored(m relay.Message) {
	s := r.s
	if r.appliers != nil {
		r.appliers.subscription.Take(m)
	}
	c, err := relay.Decode(m.Data)
	if err != nil {
		s.fail("I11", "a message cannot be read: %v", err)
		return
	}
	s.World.Tracef("message %d of generation %d of shard %s is stored", c.Number, c.Generation, c.Shard)
	sh := s.Source.Shard(c.Label, c.Shard)
	if sh == nil {
		s.fail("I11", "a message of shard %s, which no stream has", c.Shard)
		return
	}
	record := c.Label + "/" + c.Shard + "/" + c.Sequence.String()
	n := numbering{c.Ledger, c.Generation, c.Label, c.Shard}
	if r.numbers[n] == nil {
		r.numbers[n] = map[uint64]relay.Change{}
	}
	if was, ok := r.numbers[n][c.Number]; ok && was.Sequence != c.Sequence {
		s.fail("I11", "number %d of generation %d of shard %s is %s and %s", c.Number, c.Generation, c.Shard, was.Sequence, c.Sequence)
	}
	r.numbers[n][c.Number] = c
	at := sh.After(c.Sequence) - 1
	if at < 0 || sh.Records[at].Change.Sequence.Compare(c.Sequence) != 0 || c.Omitted == "" && !c.New.Equal(sh.Records[at].Change.New) {
		s.fail("I11", "the message of %s does not hold the record", record)
		return
	}
	_, id := s.Source.KeyOf(c.Keys)
	if r.sent[record] {
		s.World.Inject("message published again")
	} else if s.State().GapCount == 0 { // after a gap only versions rank changes, and a parent may be read after its child
		r.inOrder(c, record, id)
	}
	r.sent[record] = true
	if had, ok := r.held[id]; !ok || had.Version() < c.Version() {
		r.held[id] = c
	}
}

// inOrder: an item's records in a shard are published in order, and those of a shard after its
// parent, if the ledger knows it, was read to its end. A listing may lack a parent that was not
// trimmed. Its changes are published late, and consumers compare versions.
func (r *relaying) inOrder(c relay.Change, record, id string) {
	name := c.Label + "/" + c.Shard
	shards := r.s.Shards()
	if at := slices.IndexFunc(shards, func(s checkpoint.Shard) bool { return s.Label == c.Label && s.ID == c.Shard }); at >= 0 && r.newest[name].IsZero() {
		before := slices.IndexFunc(shards, func(s checkpoint.Shard) bool { return s.Label == c.Label && s.ID == shards[at].Parent })
		if before >= 0 && !shards[before].Finished() {
			r.s.fail("I11", "the message of %s came before its parent was read to its end", record)
		}
	}
	if c.Sequence.Compare(r.newest[name+"/"+id]) < 0 {
		r.s.fail("I11", "the message of %s came first after one of a later change of its item", record)
	}
	r.newest[name], r.newest[name+"/"+id] = c.Sequence, c.Sequence
}

// written: a checkpoint never passes an unpublished change (H58).
func (r *relaying) written(table, key string, after *model.Row) {
	s := r.s
	if table == model.StateTable && r.appliers != nil {
		r.appliers.noted(key, after)
	}
	if table != model.StateTable || !strings.HasPrefix(key, "default/shard/"+s.Source.Name+"/") {
		return
	}
	is, exists := decoded[shardRecord](after)
	if !exists {
		return
	}
	name := is.Label + "/" + is.ID
	from := r.read[name]
	r.read[name] = is.Position
	sh := s.Source.Shard(is.Label, is.ID)
	if sh == nil || is.Position.Compare(from) <= 0 {
		return
	}
	for _, record := range sh.Records[max(sh.After(from), sh.Trimmed):min(sh.After(is.Position), len(sh.Records))] {
		if !r.sent[name+"/"+record.Change.Sequence.String()] {
			s.fail("I11", "the checkpoint of %s is at %s, and %s is not published", is.ID, is.Position, record.Change.Sequence)
			return
		}
	}
}

// judge: numbers up to the checkpoint have no holes, and if nothing was lost the consumer equals
// the source. Changes that a former generation left unpublished have numbers in the current one.
func (r *relaying) judge() {
	s := r.s
	if s.isSetBack() || s.bad() {
		return
	}
	for n, records := range r.numbers {
		for _, shard := range s.Shards() {
			if n.shard != shard.ID || n.label != shard.Label || n.generation != shard.Generation {
				continue
			}
			if first := slices.Min(slices.Collect(maps.Keys(records))); first > shard.NumberedFrom+1 {
				s.fail("I11", "shard %s is numbered from %d, its row says after %d", shard.ID, first, shard.NumberedFrom)
			}
			for number := shard.NumberedFrom + 1; number <= shard.Applied; number++ {
				if _, published := records[number]; !published {
					s.fail("I11", "number %d of generation %d of shard %s is not published", number, n.generation, n.shard)
					return
				}
			}
		}
	}
	if s.tooLate || len(s.Gaps) > 0 || len(s.Source.Streams) > 1 || s.Source.Stream().Ended {
		return
	}
	items := map[string]attribute.Item{}
	for _, item := range s.Source.Items() {
		_, id := s.Source.KeyOf(item)
		items[id] = item
	}
	for _, id := range slices.Sorted(maps.Keys(r.held)) {
		if c := r.held[id]; c.Omitted == "" && !c.New.Equal(items[id]) {
			s.fail("I11", "the consumer's image of an item is not the source's, at %s", c.Version())
			return
		}
	}
}
