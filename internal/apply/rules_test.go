package apply

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/expression"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// A message removes what another rule, or an earlier mapping, wrote for its item. The message that
// would have removed it may be lost or refused as stale. Families that the target no longer has are
// left out.
func TestAMessageRemovesWhatOthersPutThere(t *testing.T) {
	key := []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}
	when := func(text string) transform.Condition {
		c, err := expression.ParseWhen(text)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	to := func(family string) []transform.Write {
		return []transform.Write{{Columns: []transform.ColumnRule{{Attribute: "*", To: family}}}}
	}
	m, err := transform.New(transform.Spec{Source: "Orders", Table: "orders", PrimaryKey: key, Families: []transform.Family{{Name: "d"}, {Name: "e"}}, Rules: []transform.Rule{
		{Name: "skipped", When: when("k = 'no'"), Text: "k = 'no'", Ignore: true}, {When: when("k = 'b'"), Text: "k = 'b'", Writes: to("e")}, {Writes: to("d")}}})
	if err != nil {
		t.Fatal(err)
	}
	former, err := transform.NewMapping("Orders", "orders", "f", key)
	if err != nil {
		t.Fatal(err)
	}
	playScene(t, func(s *scene) {
		s.Tables[0].Mapping = m
		s.Families = &enginetest.Schema{Memory: &sinktest.Memory{}, Names: []string{"d", "e", "f"}}
		s.Restore = func(string) (*transform.Mapping, error) { return former, nil }
		s.change(func(state *checkpoint.TableState) {
			state.Former = []checkpoint.Former{{Hash: "g", Text: former.Describe(), Tables: []string{"orders"}, Generation: 6}}
		})
		ignored := map[string]int{}
		s.Events.Ignored = func(_, rule string, items int) { ignored[rule] += items }
		s.answer = func(_ context.Context, r *sink.Request) error {
			if r.Row == "i2" && slices.Contains(removed(r), "f") { // the family was deleted meanwhile
				s.Families.(*enginetest.Schema).Names = []string{"d", "e"}
				return &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Permanent, Code: "NotFound"}
			}
			return nil
		}
		s.message(1, 7)
		s.message(2, 7)
		s.send(3, func(c *relay.Change) {
			c.New = attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("i3")}, {Name: "k", Value: attribute.String("no")}})
		})
		s.applies(time.Minute)
		if !s.noted(1) || !s.noted(2) || !s.noted(3) || ignored["skipped"] != 1 || len(ignored) != 1 {
			t.Fatalf("%q, ignored %v", s.told, ignored)
		}
		for _, r := range s.rows {
			if got, want := removed(&r), map[string][]string{"i1": {"d", "e", "f"}, "i2": {"d", "e"}}[r.Row]; want != nil && !slices.Equal(got, want) {
				t.Errorf("of row %s the families %q are removed, want %q", r.Row, got, want)
			}
		}
	})
}

// removed returns the families that a request deletes, in order.
func removed(r *sink.Request) (families []string) {
	for _, op := range r.Ops {
		if op.Kind == sink.DeleteFamily && !sink.IsOwn(op.Family) {
			families = append(families, op.Family)
		}
	}
	slices.Sort(families)
	return families
}

// If the application writes too, the first write names the columns of the previous image, so that
// it removes the older cells among them. Without an application that writes, it names none.
func TestAFirstApplicationNamesWhatWasThere(t *testing.T) {
	for _, late := range []time.Duration{0, time.Hour} {
		playScene(t, func(s *scene) {
			s.Tables[0].Late = late
			s.send(1, func(c *relay.Change) {
				c.Event = cdc.Modify
				c.Old = attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("i1")}, {Name: "gone", Value: attribute.String("x")}})
			})
			s.applies(10 * time.Second)
			named := len(s.rows) == 1 && slices.ContainsFunc(s.rows[0].Ops, func(op sink.Op) bool { return op.Qualifier == "gone" })
			if len(s.rows) != 1 || named != (late > 0) {
				t.Errorf("late by %s: %+v", late, s.rows)
			}
		})
	}
}
