package apply

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// H87: with a version attribute, the messages of an item are applied in the order of their arrival,
// whatever happens to the first of them. Messages of other items do not wait. Without a version
// attribute, no message waits for another.
func TestH87_MessagesOfAnItemAreAppliedInOrder(t *testing.T) {
	for name, c := range map[string]struct {
		attribute string
		fails     int // how often the first write fails
		late      time.Duration
		ends      string // the sequence numbers, in the order in which first writes end
	}{
		"the first is slow":          {attribute: "rev", ends: "2 1 3 4"},
		"the first fails":            {attribute: "rev", fails: 3, ends: "2 1 3 4"},
		"the first is written twice": {attribute: "rev", late: time.Minute, ends: "2 1 3 4"},
		"no order":                   {ends: "2 3 4 1"},
	} {
		playScene(t, func(s *scene) {
			m, err := transform.New(transform.Spec{Source: "Orders", Table: "orders", VersionAttribute: c.attribute,
				Families: []transform.Family{{Name: "d"}}, PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}})
			s.must(err)
			s.Tables[0].Mapping, s.Tables[0].Late, s.Options.Pull = m, c.late, 4
			var ends []string
			s.answer = func(ctx context.Context, r *sink.Request) error {
				number := strings.TrimLeft(r.Refuse.AtLeast.Sequence().String(), "0")
				if number == "1" && len(ends) < 4 {
					if s.must(task.Sleep(ctx, 2*time.Second)); c.fails > 0 {
						c.fails--
						return &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Unknown}
					}
				}
				if len(ends) < 4 {
					ends = append(ends, number)
				}
				return nil
			}
			for n := range uint64(4) {
				s.send(n+1, func(c *relay.Change) {
					if n != 1 {
						c.Keys, c.New = enginetest.Keyed("hot"), enginetest.Keyed("hot")
					}
				})
			}
			s.applies(5 * time.Minute)
			for n := range uint64(4) {
				if !s.noted(n + 1) {
					t.Errorf("%s: message %d is not noted", name, n+1)
				}
			}
			if got := strings.Join(ends, " "); got != c.ends {
				t.Errorf("%s: writes end in the order %s, want %s", name, got, c.ends)
			}
		})
	}
}

// H87: if an item's first message fails for so long that its table is set aside, the messages behind
// it are set aside too, and given back when the table recovers. In the end no message waits.
func TestH87_MessagesBehindAFailingOneAreSetAside(t *testing.T) {
	playScene(t, func(s *scene) {
		m, err := transform.New(transform.Spec{Source: "Orders", Table: "orders", VersionAttribute: "rev",
			Families: []transform.Family{{Name: "d"}}, PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}})
		s.must(err)
		s.Tables[0].Mapping, s.Options.Pull = m, 3
		s.answer = func(context.Context, *sink.Request) error {
			if s.took() < 2*time.Minute {
				return &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Unknown}
			}
			return nil
		}
		for n := range uint64(3) {
			s.send(n+1, func(c *relay.Change) { c.Keys, c.New = enginetest.Keyed("hot"), enginetest.Keyed("hot") })
		}
		s.applies(5 * time.Minute)
		told := strings.Join(s.told, ", ")
		if !strings.Contains(told, "give back d2 d3") || !s.noted(1) || s.noted(2) {
			t.Errorf("%s", told)
		}
	})
}
