package switchover

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/evidence"
)

// A script sees from the code whether the cutover found no suitable moment for a short freeze, or
// was cancelled for another reason.
func TestACutoverWithoutAMoment(t *testing.T) {
	for code, none := range map[string]bool{diag.NoMoment: true, diag.CutoverCancelled: false} {
		playScene(t, func(s *scene) {
			s.World.Go("end the attempt", func(context.Context) {
				s.Sleep(3 * time.Second)
				s.Must(s.Update(func(c *checkpoint.Cutover) error {
					c.Step, c.NoMoment, c.Reason = checkpoint.CutoverCancelled, none, "the reason"
					return nil
				}))
			})
			if d, got := s.start(keep); got != code || d.Step != "cancelled" {
				t.Errorf("no moment %t: %s, step %s", none, got, d.Step)
			}
		})
	}
}

// The question names the targets of all groups that would be switched.
func TestTheQuestionNamesAllTargets(t *testing.T) {
	playGroups(t, func(s *scene) {
		if _, code, text := s.with(Selection{All: true}, begin(Request{KeepFallback: "no"})); code != "" {
			t.Fatal(code, text)
		}
		if len(s.asked) != 1 || !strings.Contains(s.asked[0], "orders, parts") {
			t.Errorf("%q", s.asked)
		}
	})
}

// A step is for the only cutover that it fits. If it fits several, the operator must select them.
func TestAStepThatFitsSeveralCutovers(t *testing.T) {
	cancel := func(ctx context.Context, o *Operator) error { return o.Steer(ctx, Step{Name: "cancel"}) }
	playGroups(t, func(s *scene) {
		if _, code, text := s.with(Selection{All: true}, begin(Request{KeepFallback: "no", Yes: true})); code != "" {
			t.Fatal(code, text)
		}
		if all, code, text := s.with(Selection{}, cancel); code != diag.Usage || len(all) > 0 || !strings.Contains(text, "Orders, Parts") {
			t.Errorf("none selected: %s %q, %d documents", code, text, len(all))
		}
		if all, code, text := s.with(Selection{All: true}, cancel); code != "" || len(all) != 2 {
			t.Errorf("all selected: %s %q, %d documents", code, text, len(all))
		}
	})
}

// Evidence is about the tables of one group, each with its own state. A group that never began a
// cutover needs no selection.
func TestEvidenceOfOneGroup(t *testing.T) {
	playGroups(t, func(s *scene) {
		root := t.TempDir()
		write := func(dir string) func(ctx context.Context, o *Operator) error {
			return func(ctx context.Context, o *Operator) error {
				return ignoreJSON(s, o.Evidence(ctx, filepath.Join(root, dir)))
			}
		}
		for _, group := range []string{"Parts", "Orders"} {
			if _, code, text := s.with(Selection{Group: group}, begin(Request{KeepFallback: "no", Yes: true})); code != "" {
				t.Fatal(code, text)
			}
			if group == "Orders" {
				break
			}
			if _, code, text := s.with(Selection{}, write("parts")); code != "" {
				t.Fatalf("of the only attempt: %s %s", code, text)
			}
		}
		content, err := os.ReadFile(filepath.Join(root, "parts", "evidence.json"))
		s.Must(err)
		var d evidence.Document
		s.Must(json.Unmarshal(content, &d))
		if want := s.Table("Parts").Generation; len(d.Tables) != 1 || d.Tables[0].Source != "Parts" || d.Tables[0].Generation != want || want == 0 {
			t.Errorf("group Parts, generation %d: %+v", want, d.Tables)
		}
		if _, code, text := s.with(Selection{All: true}, write("all")); code != diag.Usage || !strings.Contains(text, "one group") {
			t.Errorf("of two groups: %s %s", code, text)
		}
		if _, err := os.Stat(filepath.Join(root, "all")); err == nil {
			t.Error("a refused command wrote a folder")
		}
	})
}
