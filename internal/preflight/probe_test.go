package preflight

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// The requirements for the rules of existing families: the stricter one if two entries share a
// target.
func TestChecksOfExistingFamilies(t *testing.T) {
	c, err := config.Parse("f", []byte(`version: 1
target: { project: p, instance: i }
tables:
  - from: AAA
    to: t
    families: { d: maxversions=1, n: never:intsum, log: never, m: never:intsum }
    rules: [{ row_key: "a#{id}", columns: { "*": d, n: { to: "n:n", as: counter }, log: { to: log, as: cells } } }]
  - from: BBB
    to: t
    families: { d: maxversions=1, n: never:intsum, log: never, kept: never }
    keep_versions: true
    rules: [{ row_key: "b#{id}", columns: { "*": d, n: { to: "n:n", as: counter } } }]
  - from: CCC
    to: t
    families: { log: never, n: never:intsum, x: never }
    rules: [{ row_key: "c#{id}", columns: { "*": log, n: { to: "n:c", as: counter } } }]
  - from: DDD
    to: alone
    families: { n: never:intsum, d: maxversions=1 }
    rules: [{ row_key: "{id}", columns: { "*": d, n: { to: "n:n", as: counter } } }]
`), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]sink.Check{"t:d": sink.Same, "t:n": sink.Same, "t:log": sink.Same, "t:m": sink.Any, "t:kept": sink.Same, "t:x": sink.Any, "alone:n": sink.NoAge, "alone:d": sink.Any}
	for _, spec := range Specs(c)[1:] {
		for _, f := range spec.Families {
			if check, ok := want[spec.Name+":"+f.Name]; ok && f.Check != check {
				t.Errorf("%s:%s: %d, want %d", spec.Name, f.Name, f.Check, check)
			} else if ok {
				delete(want, spec.Name+":"+f.Name)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("not asked for: %v", want)
	}
}

// Published changes are applied once, so a table whose application also writes the target is
// refused.
func TestARelayIsRefusedBesideDualWrites(t *testing.T) {
	cfg := &config.Config{Tables: []config.Table{{From: "Orders"}}, DualWrites: config.DualWrites{Settle: time.Minute}}
	cfg.Relay.Topic, cfg.Relay.Subscription = "projects/p/topics/t", "projects/p/subscriptions/s"
	p := &Prober{Cfg: cfg}
	p.AskTopic(t.Context())
	p.AskSubscription(t.Context())
	if len(p.Failed) != 2 || !strings.Contains(errors.Join(p.Failed...).Error(), "relay does not work with dual_writes") {
		t.Error(p.Failed)
	}
}
