package fallback

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// store is an item, its row, and the answer to a write.
type store struct {
	item   string // "" if there is none
	row    string
	answer Outcome
	sleeps time.Duration // of the process, while it reads the row
	fails  error
	wrote  []Write
	signed []time.Time
}

func (s *store) Item(context.Context, string, attribute.Item) (attribute.Item, bool, error) {
	return itemOf("x", s.item), s.item != "", s.fails
}

func (s *store) Row(ctx context.Context, _, _ string) ([]transform.Cell, error) {
	_ = task.Sleep(ctx, s.sleeps)
	if s.row == "" {
		return nil, nil
	}
	return []transform.Cell{{Family: "f", Qualifier: "v", Value: []byte(s.row)}}, nil
}

func (s *store) Write(_ context.Context, _ string, w Write, signed time.Time) Answer {
	s.wrote, s.signed = append(s.wrote, w), append(s.signed, signed)
	return Answer{Outcome: s.answer, Reason: "because"}
}

// What one look does with an item and its row.
func TestH143_OneLook(t *testing.T) {
	noAnswer := errors.New("no answer")
	for name, c := range map[string]struct {
		key    string
		store  store
		kind   findingKind
		writes int
	}{
		"equal":                             {"x", store{item: "1", row: "1"}, settled, 0},
		"both are missing":                  {"x", store{}, settled, 0},
		"the item expired":                  {"x", store{row: "expired"}, settled, 0},
		"an expired row of another item":    {"x", store{item: "1", row: "expired", answer: Done}, settled, 1},
		"another value":                     {"x", store{item: "1", row: "2", answer: Done}, settled, 1},
		"a new row":                         {"x", store{row: "2", answer: Done}, settled, 1},
		"a removed row":                     {"x", store{item: "1", answer: Done}, settled, 1},
		"the item changed meanwhile":        {"x", store{item: "1", row: "2", answer: Changed}, unequal, 1},
		"the signature is too old":          {"x", store{item: "1", row: "2", answer: Expired}, refused, 1},
		"throttled":                         {"x", store{item: "1", row: "2", answer: Refused}, refused, 1},
		"no answer to the write":            {"x", store{item: "1", row: "2", answer: Unknown}, doubted, 1},
		"an item that DynamoDB rejects":     {"x", store{item: "1", row: "2", answer: Unfitting}, parked, 1},
		"a row that gives no item":          {"x", store{item: "1", row: "?"}, parked, 0},
		"a row key that is no item's key":   {"bad", store{row: "1"}, parked, 0},
		"the item cannot be read":           {"x", store{row: "1", fails: noAnswer}, settled, 0},
		"the process sleeps between reads":  {"x", store{item: "1", row: "2", sleeps: time.Hour, answer: Expired}, refused, 1},
		"an unknown row and a missing item": {"x", store{row: "?"}, parked, 0},
	} {
		world := virtual.NewWorld(1, time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), false)
		err := world.Run(24*time.Hour, func(ctx context.Context) {
			ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "p", checkpoint.Options{Worker: "w", ID: "l"})
			if err != nil {
				t.Error(err)
				return
			}
			ledger.Heard(ctx, world.Now())
			r := &term{Leader: &Leader{Ledger: ledger, Form: plainForm{}, Rows: &c.store, Items: &c.store}, times: Timings{Call: 10 * time.Hour}.orDefault()}
			p := proof{signed: world.Now().Add(-3 * time.Second), wait: 8 * time.Minute, mayWrite: true}
			found, err := r.lookOnce(ctx, c.key, p)
			if found.kind != c.kind || !errors.Is(err, c.store.fails) || len(c.store.wrote) != c.writes {
				t.Errorf("%s: %+v, %v, %d writes", name, found, err, len(c.store.wrote))
			}
			for _, at := range c.store.signed {
				if !at.Equal(p.signed) {
					t.Errorf("%s: signed with %v, and the proof is of %v (F2)", name, at, p.signed)
				}
			}
			if c.kind == doubted && !found.until.Equal(p.signed.Add(p.wait)) {
				t.Errorf("%s: in doubt until %v", name, found.until)
			}
			if c.kind == parked && found.reason == "" {
				t.Errorf("%s: parked without a reason", name)
			}
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
