package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// publisher makes the changes that followers read durable in a topic.
type publisher struct {
	*common
	topic relay.Topic
	loads bool // what loads read is published, too
}

// publish makes the messages of a page durable in the topic, however long it takes, unless the
// page's slot is wanted and it gets no further. Changes are numbered from what the shard's progress
// counts, so that whoever reads the page again gives them the same numbers. The first dropped ones
// are from before the cut. Written are the changes that whoever reads them writes as well: all that
// were not dropped, or, where appliers write, those that do not fit a message. A mode that publishes
// nothing makes it do nothing.
func (p publisher) publish(life lifecycle, shard checkpoint.Shard, at checkpoint.Progress, changes []cdc.Change, dropped int, slot *pageSlot) (written []cdc.Change, err error) {
	if !p.mode.Publishes() || len(changes) == 0 {
		return changes[dropped:], nil
	}
	origin := relay.Origin{
		Ledger: p.ledger.ID(), Table: p.source, StreamARN: shard.StreamARN, Label: shard.Label, Shard: shard.ID,
		Generation: shard.Generation, Hop: shard.Hop, MappingHash: p.mappingHash,
	}
	page, err := relay.NewPage(origin, relay.Number{Before: at.Applied, CellTime: at.CellTime}, changes, dropped)
	if err != nil {
		return nil, err
	}
	since := task.Mono(life.work)
	err = p.retry(life.finishing(), "publish", func(ctx context.Context) error {
		done, err := p.attempt(ctx, &page)
		if done > 0 {
			since = task.Mono(ctx)
		}
		if err != nil && ctx.Err() == nil && repeatable(err) && slot.wanted(task.Mono(ctx)-since) {
			slot.drop(true)
			return errPutBack
		}
		return err
	})
	if p.mode.Writes() || err != nil {
		return changes[dropped:], err
	}
	for _, i := range page.Oversize {
		written = append(written, changes[i])
	}
	return written, nil
}

// announce makes sure that whoever reads the shard next numbers its changes as this page does, or
// sees that it cannot: before a shard's first checkpoint only the row can tell. It returns the
// progress that the page's numbers follow.
func (p publisher) announce(life lifecycle, lease *checkpoint.Lease, at checkpoint.Progress, changes []cdc.Change) (checkpoint.Progress, error) {
	if !p.mode.Publishes() || len(changes) == 0 {
		return at, nil
	}
	err := p.retry(life.finishing(), "announce", func(ctx context.Context) (err error) {
		at.Applied, err = lease.Announce(ctx, at, changes[0].Sequence, len(changes))
		return err
	})
	return at, err
}

// publishLoad does the same for items that a load has read, or the changes of a window, if loads are
// published. They are not numbered: a page that is read again need not hold the same items. Nobody
// waits to apply them, so that nothing counts them.
func (p publisher) publishLoad(life lifecycle, state checkpoint.TableState, part checkpoint.Part, m *transform.Mapping, items []attribute.Item, changes []cdc.Change, readAt time.Time) error {
	if !p.loads || len(items)+len(changes) == 0 {
		return nil
	}
	version := transform.LoadVersion(state.Generation, readAt)
	read := relay.Change{Loaded: true, CellTime: readAt, Origin: relay.Origin{
		Ledger: p.ledger.ID(), Table: p.source, StreamARN: state.StreamARN, Label: state.Label, Shard: fmt.Sprintf("load-%d/part-%d", part.Number, part.Index),
		Generation: state.Generation, Hop: transform.LoadHop, MappingHash: p.mappingHash,
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
	return p.retry(life.finishing(), "publish", func(ctx context.Context) error {
		_, err := p.attempt(ctx, &page)
		return err
	})
}

// attempt publishes what is open of a page, once, and returns how many messages became durable.
func (p publisher) attempt(ctx context.Context, page *relay.Page) (int, error) {
	limited, cancel := task.WithTimeout(ctx, publishTime)
	defer cancel()
	done, err := page.Publish(limited, p.topic)
	p.events.Published(p.source, done)
	return done.Messages, err
}

// publishTime bounds one attempt. The client repeats by itself what may be repeated, so that it is
// longer than a request takes.
const publishTime = time.Minute
