package checkpoint_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// A witness in a target table belongs to another migration if this ledger and this process know
// neither its ledger nor its source table, however much of it can be read.
func TestWhoseWitnessIsAStrangers(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, l := p.worker("a")
		create(t, ctx, l)
		for name, c := range map[string]struct {
			witness string // of a table Returns; "": none
			source  string
			nobody  bool // there is no ledger yet
			started bool // this process was started for Returns
			found   string
		}{
			"none":                                    {},
			"another migration's":                     {witness: `{"format":1,"ledger":"other","pipeline":"two"}`, source: "Returns", found: `migration "two"`},
			"of a version without names":              {witness: `{"format":1,"ledger":"other"}`, source: "Returns", found: `migration "other"`},
			"of a newer format":                       {witness: `{"format":99,"ledger":{},"pipeline":"two"}`, source: "Returns", found: `migration "two"`},
			"that nobody can read":                    {witness: `?`, source: "Returns", found: `migration ""`},
			"of a lost ledger of ours":                {witness: `{"format":1,"ledger":"other"}`, source: source},
			"of this ledger, of a table that left it": {witness: `{"format":1,"ledger":"` + l.ID() + `"}`, source: "Returns"},
			"of a table that begins":                  {witness: `{"format":1,"ledger":"other"}`, source: "Returns", started: true},
			"and no ledger":                           {witness: `{"format":1,"ledger":"other","pipeline":"two"}`, source: "Returns", nobody: true, found: `migration "two"`},
			"of no ledger, and no ledger":             {witness: `{"format":1}`, source: "Returns", nobody: true, found: `migration ""`},
		} {
			target := &checkpointtest.Memory{}
			if c.witness != "" {
				_, err := target.Swap(ctx, "w/"+c.source, 0, 1, []byte(c.witness))
				check(t, err)
			}
			at := checkpoint.Witnesses{Target: "shop", Store: target, Prefix: "w/", Source: func(key string) string { return strings.TrimPrefix(key, "w/") }}
			own := func(s string) bool { return c.started && s == "Returns" }
			ledger := l
			if c.nobody {
				ledger = nil
			}
			other, found, err := at.Stranger(ctx, ledger, own)
			if want := c.found + " copies table Returns into target table shop"; err != nil || found != (c.found != "") || found && other.String() != want {
				t.Errorf("%s: %v, %t, %s", name, err, found, other)
			}
		}
		lost := errors.New("lost")
		for name, at := range map[string]checkpoint.Witnesses{
			"the target": {Store: &checkpointtest.Memory{OnRead: func(context.Context, string) error { return lost }}},
			"the ledger": {Store: witnessed(t, ctx), Prefix: "w/", Source: func(string) string { return "Returns" }},
		} {
			p.store.OnRead = nil
			if name == "the ledger" {
				p.store.OnRead = func(context.Context, string) error { return lost }
			}
			if _, found, err := at.Stranger(ctx, l, func(string) bool { return false }); !errors.Is(err, lost) || found {
				t.Errorf("%s cannot be read: %t, %v", name, found, err)
			}
		}
		p.store.OnRead = nil
	})
}

func witnessed(t *testing.T, ctx context.Context) *checkpointtest.Memory {
	t.Helper()
	target := &checkpointtest.Memory{}
	_, err := target.Swap(ctx, "w/Returns", 0, 1, []byte(`{"format":1,"ledger":"other"}`))
	check(t, err)
	return target
}
