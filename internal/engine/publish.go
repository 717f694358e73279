package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Publisher makes the changes that followers read durable in a topic.
type Publisher struct {
	*Common
	topic  relay.Topic
	loads  bool          // also publish the items that loads read
	wanted relay.Keying  // by this process's configuration
	keying *atomic.Int64 // by the table's record, as the assigner last read it
}

// See takes the keying of the table's record for the next pages.
func (p Publisher) See(state checkpoint.TableState) { p.keying.Store(int64(state.OrderingBuckets)) }

// FirstKeys calls Rekey for a table without buckets. Each process calls it before it reads shards,
// so a table that begins to be published has buckets from its first message.
func (p Publisher) FirstKeys(ctx context.Context) error {
	if !p.Mode.Publishes() {
		return nil
	}
	state, _, err := p.Ledger.Table(ctx, p.Source)
	if err != nil || state.OrderingBuckets > 0 {
		return err
	}
	return p.Rekey(ctx)
}

// Rekey records in the table's row how this process keys messages, if the row differs. It waits
// while a process of an older version may publish, because that process gives each item a key of its
// own. A shard's reader changes the keys between two pages, and publishes a page completely before
// the next one. So no message of an item's older changes is unpublished when the item's key changes.
func (p Publisher) Rekey(ctx context.Context) error {
	if !p.Mode.Publishes() {
		return nil
	}
	state, _, err := p.Ledger.Table(ctx, p.Source)
	if err != nil || state.OrderingBuckets == int(p.wanted) {
		return err
	}
	shards, err := p.Ledger.Shards(ctx, p.Source)
	if err != nil {
		return err
	}
	processes, err := p.Ledger.Processes(ctx)
	if err != nil {
		return err
	}
	running := standing.Answering(processes, p.Ledger.Now(ctx), p.Ledger.Lease())
	if old, _ := standing.Outdated(shards, "", checkpoint.Heartbeat{}, running); old != "" {
		return nil
	}
	_, err = p.Ledger.UpdateTable(ctx, p.Source, func(s *checkpoint.TableState) error {
		s.OrderingBuckets = int(p.wanted)
		return nil
	})
	return err
}

// Publish makes the messages of a page durable in the topic, and retries without a time limit. If
// other shards wait for the page's slot and it makes no progress, it returns an error. Changes are
// numbered from the count in the shard's progress. So if another worker reads the page again, its
// changes get the same numbers. Changes from before the cut are dropped, and `dropped` is their
// number. The result `written` holds the changes that the caller must also write to the target. In
// mode topic, these are only changes that do not fit into a message. In a mode without publication,
// Publish does nothing.
func (p Publisher) Publish(life Lifecycle, shard checkpoint.Shard, at checkpoint.Progress, changes []cdc.Change, dropped int, slot *PageSlot) (written []cdc.Change, err error) {
	if !p.Mode.Publishes() || len(changes) == 0 {
		return changes[dropped:], nil
	}
	origin := relay.Origin{
		Ledger: p.Ledger.ID(), Table: p.Source, StreamARN: shard.StreamARN, Label: shard.Label, Shard: shard.ID,
		Generation: shard.Generation, Hop: shard.Hop, MappingHash: p.MappingHash, Keying: relay.Keying(p.keying.Load()),
	}
	page, err := relay.NewPage(origin, relay.Number{Before: at.Applied, CellTime: at.CellTime}, changes, dropped)
	if err != nil {
		return nil, err
	}
	life, span := p.traced(life, &page)
	defer func() { span.Done(err) }()
	since := task.Mono(life.Work)
	err = p.Retry(life.Finishing(), "publish", func(ctx context.Context) error {
		done, err := p.attempt(ctx, &page)
		if done > 0 {
			since = task.Mono(ctx)
		}
		if err != nil && ctx.Err() == nil && Repeatable(err) && slot.wanted(task.Mono(ctx)-since) {
			slot.Drop(true)
			return ErrPutBack
		}
		return err
	})
	if p.Mode.Writes() || err != nil {
		return changes[dropped:], err
	}
	for _, i := range page.Oversize {
		written = append(written, changes[i])
	}
	return written, nil
}

// Announce ensures that the next reader of the shard gives the same numbers to the changes of this
// page, or detects that it cannot. Before the first checkpoint, only the shard's row in the ledger
// records the numbers. Announce returns the progress from which the page's numbers continue.
func (p Publisher) Announce(life Lifecycle, lease *checkpoint.Lease, at checkpoint.Progress, changes []cdc.Change) (checkpoint.Progress, error) {
	if !p.Mode.Publishes() || len(changes) == 0 {
		return at, nil
	}
	err := p.Retry(life.Finishing(), "announce", func(ctx context.Context) (err error) {
		at.Applied, err = lease.Announce(ctx, at, changes[0].Sequence, len(changes))
		return err
	})
	return at, err
}

// PublishLoad publishes the items that a load has read, or the changes of an incremental export, if
// loads are published. These messages have no numbers, because a page that is read again may hold
// other items. No process waits for their application, so they are not counted.
func (p Publisher) PublishLoad(life Lifecycle, state checkpoint.TableState, part checkpoint.Part, m *transform.Mapping, items []attribute.Item, changes []cdc.Change, readAt time.Time) error {
	if !p.loads || len(items)+len(changes) == 0 {
		return nil
	}
	version := transform.LoadVersion(state.Generation, readAt)
	read := relay.Change{Loaded: true, CellTime: readAt, Origin: relay.Origin{
		Ledger: p.Ledger.ID(), Table: p.Source, StreamARN: state.StreamARN, Label: state.Label, Shard: fmt.Sprintf("load-%d/part-%d", part.Number, part.Index),
		Generation: state.Generation, Hop: transform.LoadHop, MappingHash: p.MappingHash, Keying: relay.Keying(state.OrderingBuckets),
	}}
	for _, item := range items {
		changes = append(changes, cdc.Change{Event: cdc.Insert, Sequence: version.Sequence(), Time: readAt, Keys: m.Keys(item), New: item})
	}
	var page relay.Page
	for _, c := range changes {
		read.Change, read.CellTime = c, c.Time
		message, _, err := relay.Encode(read)
		if err != nil {
			return err
		}
		page.Open = append(page.Open, message)
	}
	life, span := p.traced(life, &page)
	err := p.Retry(life.Finishing(), "publish", func(ctx context.Context) error {
		_, err := p.attempt(ctx, &page)
		return err
	})
	span.Done(err)
	return err
}

// traced begins the span of a publication, if the page or part in life has a span. The messages name
// the new span, so that the spans of their application are linked to it.
func (p Publisher) traced(life Lifecycle, page *relay.Page) (Lifecycle, Span) {
	if p.Tracer == nil || p.Tracer.Traceparent(life.Work) == "" {
		return life, Span{}
	}
	ctx, span := Trace(life.Work, p.Tracer, SpanPublish, 0, SpanFacts{Records: len(page.Open)})
	page.Trace(p.Tracer.Traceparent(ctx))
	return life.Within(ctx), span
}

// attempt publishes the unpublished messages of a page, once, and returns how many became durable.
func (p Publisher) attempt(ctx context.Context, page *relay.Page) (int, error) {
	limited, cancel := task.WithTimeout(ctx, publishTime)
	defer cancel()
	done, err := page.Publish(limited, p.topic)
	p.Events.Published(p.Source, done)
	return done.Messages, err
}

// publishTime is the timeout of one attempt. It is much longer than one request takes, because the
// client itself retries requests.
const publishTime = time.Minute
