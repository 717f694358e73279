package relay

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// Topic takes messages. *PubSub is one.
type Topic interface {
	// Publish sends messages, those of one key in their order, and returns once the outcome of each
	// is known, or ctx has ended: nil for one that is stored durably. One that comes after a failed
	// one of its key fails as well. A key that a failure blocked is free again when Publish
	// returns; blocked is how many there were.
	Publish(ctx context.Context, messages []Message) (outcomes []error, blocked int)
}

// Page is the messages of one page of a shard that are not published yet.
type Page struct {
	Open []Message
	// Oversize are the indexes, in the page's changes, of those whose images do not fit a message.
	Oversize []int
}

// Number is where the messages of a page begin: how many of the shard's changes come before it, and
// the latest cell time among those.
type Number struct {
	Before   uint64
	CellTime time.Time
}

// NewPage numbers the changes of a page and makes their messages. The first dropped ones are from
// before the start: they are counted, and carry no images.
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

// Published is what one attempt to publish a page came to.
type Published struct {
	Messages int // that are durable now
	Bytes    int // of those
	Blocked  int // ordering keys that a failure had blocked
	// Failed is the first failure of a message; nil if all are durable.
	Failed error
}

// Publish makes one attempt to publish what is open of a page. On an error the caller repeats it
// with the same page: only what is not durable is sent again, in its order (R2). It returns nil
// when all is durable.
func (p *Page) Publish(ctx context.Context, topic Topic) (done Published, err error) {
	if len(p.Open) == 0 {
		return Published{}, nil
	}
	outcomes, blocked := topic.Publish(ctx, p.Open)
	done.Blocked = blocked
	open := make([]Message, 0, len(p.Open)) // p.Open may still be read by the topic
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
