package starter

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// sample is the number of items that are read from each table.
const sample = 200

// Read reads the data for a proposal. The proposal is about the tables that match the patterns;
// without patterns, about all tables of the region.
func Read(ctx context.Context, s *preflight.Source, patterns []string, minimal bool) ([]Table, error) {
	names, err := match(ctx, s, patterns)
	if err != nil {
		return nil, err
	}
	var tables []Table
	for _, name := range names {
		t, err := readTable(ctx, s, name, minimal)
		if err != nil {
			return nil, err
		}
		tables = append(tables, t)
	}
	return tables, nil
}

// once removes duplicate names. A table is found several times if several patterns match it.
func once(names []string) []string {
	var out []string
	for _, name := range names {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// match returns the tables of the region that match the patterns.
func match(ctx context.Context, s *preflight.Source, patterns []string) ([]string, error) {
	exact := len(patterns) > 0
	for _, one := range patterns {
		if strings.ContainsAny(one, `?[]\{}/`) || one == "" {
			return nil, diag.BadUsage(fmt.Sprintf("--from %q is neither a table's name nor a pattern", one), "* matches any characters: --from 'Video*'")
		}
		exact = exact && !strings.Contains(one, "*")
	}
	if exact {
		return once(patterns), nil
	}
	all, err := preflight.AskSource(ctx, s.Tables.List)
	if err != nil {
		return nil, preflight.ExplainSource("cannot list the tables of region "+s.Region, "", err)
	}
	var names []string
	for _, name := range all {
		chosen := len(patterns) == 0
		for _, one := range patterns {
			matches, _ := path.Match(one, name) // the only special character in a pattern is *
			chosen = chosen || matches
		}
		if chosen {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		what := "no table in " + s.Region
		if len(patterns) > 0 {
			what += " matches --from '" + strings.Join(patterns, ",") + "'"
		}
		return nil, &diag.Error{Code: diag.SourceNotFound, What: what, Cause: "the region has " + terminal.Plural(len(all), "table"), Fix: "check --from and the region"}
	}
	return names, nil
}

// streamProblem returns why the proposal cannot use a table's stream; nil if it can. Row keys of a
// proposal depend only on the primary key, so the stream may have any view type.
func streamProblem(d backfill.Description) *diag.Error {
	err := engine.CheckStream(d, false)
	if err == nil {
		return nil
	}
	var known *diag.Error
	if errors.As(preflight.Explain("the stream of table "+d.Name+" cannot be used", err), &known) {
		return known
	}
	return &diag.Error{Code: diag.StreamViewUnusable, What: "the stream of table " + d.Name + " cannot be used", Cause: err.Error()}
}

// readTable reads the data for a proposal about one table.
func readTable(ctx context.Context, s *preflight.Source, name string, minimal bool) (Table, error) {
	d, err := preflight.AskSource(ctx, func(ctx context.Context) (backfill.Description, error) { return s.Tables.Describe(ctx, name) })
	if err != nil {
		return Table{}, preflight.ExplainSource("cannot read table "+name, name, err)
	}
	t := Table{Name: name, PrimaryKey: d.PrimaryKey, Stream: streamProblem(d), Count: d.Items}
	if minimal {
		return t, nil
	}
	t.TimeToLive, err = preflight.AskSource(ctx, func(ctx context.Context) (string, error) { return s.Expiry.Attribute(ctx, name) })
	if err != nil {
		err = preflight.ExplainSource("cannot read the time to live of table "+name, name, err)
		if t.TimeToLiveUnknown = diag.Has(err, diag.SourceDenied); !t.TimeToLiveUnknown {
			return t, err
		}
	}
	t.Items, err = preflight.AskSource(ctx, func(ctx context.Context) ([]attribute.Item, error) {
		items, _, err := s.Tables.Sample(ctx, name, sample)
		return items, err
	})
	if err != nil {
		return t, preflight.ExplainSource("cannot read items of table "+name, name, err)
	}
	return t, nil
}
