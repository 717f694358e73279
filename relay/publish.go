package relay

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// Topic accepts messages. *PubSub implements it.
type Topic interface {
	// Publish sends messages, in order within each key. It returns once the outcome of each message
	// is known, or once ctx has ended. A nil outcome means that the message is stored durably. If a
	// message fails, its key is blocked, and later messages of the same key fail too. The key is
	// free again when Publish returns. The result `blocked` is the number of keys that were
	// blocked.
	Publish(ctx context.Context, messages []Message) (outcomes []error, blocked int)
}

// Page holds the messages of one page of a shard that are not published yet.
type Page struct {
	Open []Message
	// Oversize lists the changes of the page whose images do not fit into a message, by index.
	Oversize []int
}

// TraceparentAttribute is the attribute of a message that names the span of its publication, in the
// form of W3C's Trace Context. A message has it only if that span is recorded. Appliers read the
// data of messages alone, so it changes nothing for them but the links of their spans.
const TraceparentAttribute = "traceparent"

// Trace names the span of their publication in the attributes of the open messages. If the page is
// published again after a crash, its messages name another span.
func (p *Page) Trace(traceparent string) {
	for i := range p.Open {
		p.Open[i].Attributes[TraceparentAttribute] = traceparent
	}
}

// Number is the position at which the messages of a page begin. It says how many of the shard's
// changes precede them, and the latest cell time of these changes.
type Number struct {
	Before   uint64
	CellTime time.Time
}

// NewPage numbers the changes of a page and makes their messages. The argument `dropped` is how
// many changes at the beginning of the page precede the start of the migration. These changes are
// counted, but have no images.
func NewPage(o Origin, at Number, changes []cdc.Change, dropped int) (Page, error) {
	p := Page{Open: make([]Message, 0, len(changes))}
	for i, c := range changes {
		if c.Time.After(at.CellTime) {
			at.CellTime = c.Time
		}
		numbered := Change{Origin: o, Number: at.Before + uint64(i) + 1, Change: c, CellTime: at.CellTime}
		if i < dropped {
			numbered.Omitted = BeforeStart
		}
		m, omitted, err := Encode(numbered)
		if err != nil {
			return Page{}, err
		}
		if omitted == TooLarge {
			p.Oversize = append(p.Oversize, i)
		}
		p.Open = append(p.Open, m)
	}
	return p, nil
}

// Published is the result of one attempt to publish a page.
type Published struct {
	Messages int // messages that became durable
	Bytes    int // their size
	Blocked  int // ordering keys that a failure blocked
	// Failed is the first failure of a message; nil if all are durable.
	Failed error
}

// Publish makes one attempt to publish the open messages of a page. If Publish returns an error,
// the caller must repeat it with the same page. Only messages that are not durable are sent again,
// in order (R2). Publish returns nil if all messages are durable.
func (p *Page) Publish(ctx context.Context, topic Topic) (done Published, err error) {
	if len(p.Open) == 0 {
		return Published{}, nil
	}
	outcomes, blocked := topic.Publish(ctx, p.Open)
	done.Blocked = blocked
	open := make([]Message, 0, len(p.Open)) // a new slice, because the topic may still read p.Open
	for i, outcome := range outcomes {
		if outcome == nil {
			done.Messages++
			done.Bytes += p.Open[i].Size()
			continue
		}
		if err == nil {
			err = outcome
		}
		open = append(open, p.Open[i])
	}
	p.Open, done.Failed = open, err
	if cause := context.Cause(ctx); cause != nil && len(open) > 0 {
		return done, cause
	}
	return done, err
}
