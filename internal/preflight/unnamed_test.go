package preflight

import (
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// Two configurations without a name share one ledger. Both get the advice to set a name, however
// they meet, and so do two with the same name and no common table. With a common table there is no
// conflict.
func TestConfigurationsWithoutAName(t *testing.T) {
	parse := func(name string) *config.Config {
		c, err := config.Parse("f", []byte("version: 1\n"+name+"target: { project: p, instance: i }\ntables: [{ from: Orders }, { from: 'Log_{year:4}', to: logs, "+
			"rules: [{ row_key: '{$year}#{id}', columns: { '*': d } }] }]\n"), func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	unnamed, named := parse(""), parse("name: shop\n")
	states := func(sources ...string) (out []checkpoint.TableState) {
		for _, s := range sources {
			out = append(out, checkpoint.TableState{Source: s, Generation: 1})
		}
		return out
	}
	for _, c := range []struct {
		cfg    *config.Config
		states []checkpoint.TableState
		want   string
	}{
		{unnamed, states("Bills"), "follows Bills, but no table"},
		{unnamed, states("A", "B", "C", "D"), "follows A, B, C and 1 more, but no table"},
		{unnamed, nil, ""},
		{unnamed, states("Bills", "Orders"), ""},
		{unnamed, states("Log_2026"), ""},
		{named, states("Bills"), "follows Bills, but no table"},
		{named, states("Bills", "Orders"), ""},
		{named, nil, ""},
	} {
		e := ExplainShared(c.cfg, c.states)
		if (e != nil) != (c.want != "") || e != nil && (!strings.Contains(e.What, c.want) || !strings.Contains(e.Fix, "`name` in this configuration") || !e.Warning) {
			t.Errorf("%v: %v", c.states, e)
		}
	}
	for code, want := range map[string]bool{diag.MappingChanged: true, diag.SourceMoved: true, diag.CutOver: true, diag.ClusterChanged: false} {
		refused := &diag.Error{Code: code, What: "table Orders cannot go on"}
		got := SuggestName(unnamed, refused).Facts().Fix
		if former := refused.Facts().Fix; strings.Contains(got, "set `name`") != want || !strings.HasPrefix(got, former) {
			t.Errorf("%s: %s", code, got)
		}
		if SuggestName(named, refused) != refused {
			t.Errorf("%s: a configuration with a name is asked for one", code)
		}
	}
}
