package switchover

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/test/kit"
	"github.com/dynamodb-bigtable/replicator/transform"
)

const keepsFallback = "cutover: { groups: { all: [Orders, Parts] }, ready_when: { lag_held_for: 0s }, keep_fallback: true, rollback_hooks: { freeze_writes: ./f, switch: ./s, unfreeze_writes: ./u } }\n"

// The plan records what a fallback must know of the items: types that cells do not show, and the
// time to live of the source. The form of the way back is made from that record.
func TestTheRecordHoldsTheFormOfAFallback(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Must(s.Source.Put(s.Ctx, "Orders", kit.Item("b", "note=x")))
		s.Source.Expires = map[string]string{"Orders": "until"}
		d, code := s.start(Request{KeepFallback: "yes", Yes: true})
		c := s.Cutover()
		if code != "" || !c.KeepFallback || len(c.Forms) != 2 || len(c.Lossy) != 2 || !strings.HasPrefix(c.Lossy[0], "Orders: ") {
			t.Fatalf("%s: %+v, %+v", code, d, c.CutoverPlan)
		}
		description, err := s.Source.Describe(s.Ctx, "Orders")
		s.Must(err)
		table, _ := s.Config.Table("Orders")
		m, err := table.Mapping(description.PrimaryKey)
		s.Must(err)
		form, err := formOf(preflight.Table{Config: table, Description: description, Mapping: m}, c.Forms["Orders"])
		s.Must(err)
		text := transform.Seen{Kinds: transform.KindsOf(attribute.KindS)}
		if want := (transform.Types{"pk": text, "note": text}); !reflect.DeepEqual(form.Types, want) {
			t.Errorf("types %v, want %v", form.Types, want)
		}
		past, err := attribute.UnmarshalItem([]byte(`{"pk":{"S":"b"},"until":{"N":"1795170000"}}`))
		s.Must(err)
		if !form.Expired(past, s.Now()) || c.Forms["Parts"].Expires != "" {
			t.Errorf("the time to live of the source is not in %+v", c.Forms)
		}
		if _, err := formOf(preflight.Table{Config: table, Description: description, Mapping: m}, checkpoint.CutoverForm{Types: []byte("[]")}); err == nil {
			t.Error("types that cannot be read are accepted")
		}
	})
}

// No cutover begins with a fallback that is not possible. Each reason is named with its table. With
// --keep-fallback no, the same reasons do not matter.
func TestAFallbackThatIsNotPossible(t *testing.T) {
	typed := func(s *scene) {
		null := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("b")}, {Name: "note", Value: attribute.Null()}})
		s.Must(s.Source.Put(s.Ctx, "Parts", kit.Item("a", "note=x")))
		s.Must(s.Source.Put(s.Ctx, "Parts", null))
	}
	playScene(t, func(s *scene) {
		typed(s)
		for _, dry := range []bool{false, true} {
			err := s.operator().Start(s.Ctx, Request{KeepFallback: "yes", Yes: true, Rehearse: dry})
			if !diag.Has(err, diag.FallbackRefused) || !strings.Contains(err.Error(), `Parts: attribute "note" has values of types S, NULL`) || strings.Contains(err.Error(), "Orders: ") || s.Cutover().Attempt != 0 {
				t.Errorf("rehearsal %t: %v", dry, err)
			}
		}
		if _, code := s.start(Request{KeepFallback: "no", Yes: true}); code != "" || len(s.Cutover().Forms) > 0 {
			t.Errorf("without a fallback: %s, %+v", code, s.Cutover().Forms)
		}
	})
	check := func(ctx context.Context, o *Operator) error { return o.Check(ctx) }
	playConfig(t, keepsFallback, func(s *scene) {
		if d, code := s.run(s.Ctx, check); code != "" || len(d.WayBack) != 2 || !d.WayBack[1].Possible || len(d.WayBack[1].Lost) != 1 {
			t.Errorf("check: %s: %+v", code, d.WayBack)
		}
		typed(s)
		d, code := s.run(s.Ctx, check)
		if code != diag.FallbackRefused || len(d.WayBack) != 2 || d.WayBack[1].Possible || !d.WayBack[0].Possible || !strings.HasSuffix(d.NextSteps[0].Command, "--keep-fallback no -c f") {
			t.Errorf("check of one that is not possible: %s: %+v, %+v", code, d.WayBack, d.NextSteps)
		}
	})
	playScene(t, func(s *scene) { // check does not sample if no fallback is asked for
		typed(s)
		if d, code := s.run(s.Ctx, check); code != "" || !d.WayBack[1].Possible {
			t.Errorf("check: %s: %+v", code, d.WayBack)
		}
	})
}

// A source that does not answer is no reason to begin.
func TestAFallbackOfAnUnknownSource(t *testing.T) {
	playScene(t, func(s *scene) {
		for _, call := range []string{"Sample", "Attribute"} {
			s.Source.Fail = func(of string) error {
				if of == call {
					return context.DeadlineExceeded
				}
				return nil
			}
			if _, code := s.start(Request{KeepFallback: "yes", Yes: true}); code == "" || s.Cutover().Attempt != 0 {
				t.Errorf("%s: %q", call, code)
			}
		}
	})
}
