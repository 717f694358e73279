package dashboard

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/comparison"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// found stores a verify that ended with findings, in a ledger with the mapping's text.
func found(t *testing.T, mapping string, result checkpoint.VerifyResult, running bool, findings ...verify.Finding) *checkpointtest.Memory {
	t.Helper()
	store := &checkpointtest.Memory{}
	l := begin(t, store, "acme")
	state, err := l.UpdateTable(t.Context(), "Orders", func(s *checkpoint.TableState) error {
		s.Generation, s.Mapping = 7, mapping
		s.Verify.Number, s.Verify.Result = result.Number, result
		if running {
			s.Verify.Phase, s.Verify.Parts = 1, 1
		}
		return nil
	})
	if err == nil {
		err = verify.KeepRecheck(t.Context(), l, state, result.Recheck, findings)
	}
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// The findings of the last verify are listed by the hashes of their keys, without item data, up to a
// limit. Without the mapping there are no hashes. A running verify replaces the rows.
func TestFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mapping, err := transform.NewMapping("Orders", "orders", "d", []transform.KeyAttribute{{Name: "PK", Type: attribute.KindS}})
		if err != nil {
			t.Fatal(err)
		}
		keys := attribute.NewItem([]attribute.Attribute{{Name: "PK", Value: attribute.String("secret-key")}})
		differs := verify.Finding{Kind: verify.Different, Table: "orders", Row: "secret-key", Keys: keys, Reason: "the <change> was late", Columns: []verify.Column{{Family: "d", Qualifier: "secret-name", Want: "a1", Have: "b2"}}, More: 2}
		strange := verify.Finding{Kind: verify.InFlight, Table: "orders", Row: "secret-row"}
		result := checkpoint.VerifyResult{Number: 4, Recheck: "r", EndedAt: noon.Add(-time.Minute), Generation: 7, VerifyCounts: checkpoint.VerifyCounts{Compared: 100, Different: 1, InFlight: 1, LeftOut: 5}}
		many := make([]verify.Finding, mostFindings+1)
		for i := range many {
			many[i] = strange
			many[i].Row += strings.Repeat("x", i)
		}
		clean := result
		clean.VerifyCounts = checkpoint.VerifyCounts{Compared: 100}
		open := func(store checkpoint.Store) http.Handler {
			b := New("v1.2.3", func(int) []admin.Event { return nil })
			b.Show(judged(), true, noon)
			return b.Pages(&Ledger{Config: testConfig(), Target: &stores{store: store}})
		}
		for _, c := range []struct {
			name  string
			store *checkpointtest.Memory
			wants []string
			lacks string
		}{
			{"two rows", found(t, mapping.Describe(), result, false, differs, strange), []string{`<h1>Verify of Orders</h1>`, `id="findings" data-value="2"`, "<code>" + comparison.KeyHash(mapping, differs) + "</code></th><td>different</td><td>orders</td><td class=\"number\">3</td><td>the &lt;change&gt; was late</td>",
				"<code>" + comparison.KeyHash(mapping, strange) + "</code></th><td>in flight</td>", `id="verify-0-different" data-value="1"`, `id="left-out">Rows that differ were counted but not recorded: 5`, `href="../Orders"`, `id="up" href="../../"`, "replicator verify --repair --dry-run --table Orders"}, `id="more"`},
			{"many rows", found(t, mapping.Describe(), result, false, many...), []string{`data-value="200"`, `id="more"`}, `id="unnamed"`},
			{"no mapping", found(t, "", result, false, differs), []string{`id="unnamed"`, `id="verify-0-different"`}, `id="findings"`},
			{"a running verify", found(t, mapping.Describe(), result, true, differs), []string{`id="running"`}, `id="findings"`},
			{"a clean verify", found(t, mapping.Describe(), clean, false), []string{"No row is recorded.", `data-value="0"`}, `id="left-out"`},
			{"no verify", found(t, mapping.Describe(), checkpoint.VerifyResult{Recheck: "r"}, false), []string{"No verify has ended yet."}, `id="results"`},
			{"no ledger", &checkpointtest.Memory{}, []string{"No verify has ended yet."}, `id="results"`},
		} {
			code, text, _ := get(t, open(c.store), "/tables/Orders/verify")
			for _, want := range c.wants {
				if !strings.Contains(text, want) {
					t.Errorf("%s: %d, lacks %s: %s", c.name, code, want, text)
				}
			}
			if strings.Contains(text, c.lacks) || strings.Contains(text, "secret") || strings.Contains(text, "<script") {
				t.Errorf("%s shows what it must not: %s", c.name, text)
			}
		}
		store := &checkpointtest.Memory{OnRead: func(context.Context, string) error { return errors.New("denied") }}
		if code, text, _ := get(t, open(store), "/tables/Orders/verify"); code != http.StatusServiceUnavailable || !strings.Contains(text, "cannot read the findings of verify in table state") {
			t.Errorf("denied: %d, %s", code, text)
		}
		if code, _, _ := get(t, open(store), "/tables/Bills/verify"); code != http.StatusNotFound {
			t.Errorf("a table that the migration lacks: %d", code)
		}
	})
}
