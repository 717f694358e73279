package plan

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Conclude creates the missing resources if requested, and writes the outcome. The result `known`
// is the verdict if failed checks or warnings have already shown the reasons for it. Other errors
// are returned as `failed`.
func (in *Input) Conclude(ctx context.Context, d *Document) (known, failed error) {
	known = errors.Join(in.Failed...)
	refused := d.refusal(in.question)
	switch {
	case in.left:
		_, _ = fmt.Fprintln(in.Out, "\nnothing was changed, and there is nothing to create")
	case in.question.Apply && known == nil && refused != nil:
		known = refused
		_, _ = fmt.Fprintln(in.Out, "\nnothing was created: a run would be refused; see the warnings")
	case in.question.Apply && known == nil:
		failed = in.apply(ctx, d)
	case in.question.Apply:
		_, _ = fmt.Fprintln(in.Out, "\nnothing was created: fix the items marked ✗ first")
	case known != nil: // more parts may be missing that could not be checked
		_, _ = fmt.Fprintln(in.Out, "\nnothing was changed; fix the items marked ✗ first: this list may be incomplete")
	case len(d.Create) > 0:
		_, _ = fmt.Fprintln(in.Out, "\nnothing was changed; `replicator plan --apply` creates what is listed")
	default:
		_, _ = fmt.Fprintln(in.Out, "\nnothing to create")
	}
	return known, failed
}

// apply creates the printed resources, with exactly the printed split keys. It also works if
// another process creates the same resources concurrently.
func (in *Input) apply(ctx context.Context, d *Document) error {
	created := func(what string) {
		d.Created = append(d.Created, what)
		_, _ = fmt.Fprintln(in.Out, "created "+strings.TrimSpace(what))
	}
	_, _ = fmt.Fprintln(in.Out)
	if in.profile != "" {
		name := in.Cfg.Target.AppProfile
		limited, cancel := task.WithTimeout(ctx, preflight.CreateTime)
		_, err := preflight.AskTarget(limited, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, in.to.CreateProfile(ctx, in.profile)
		})
		cancel()
		if err != nil {
			return preflight.ExplainTarget("cannot create app profile "+name, err)
		}
		created("app profile " + name)
	}
	for _, m := range in.missing {
		limited, cancel := task.WithTimeout(ctx, preflight.CreateTime)
		made, err := in.to.Create(limited, m.Spec)
		cancel()
		for _, kind := range []struct {
			noun  string
			names []string
		}{{"table ", made.Tables}, {"family ", made.Families}, {"view ", made.Views}} {
			for _, name := range kind.names {
				created(kind.noun + name)
			}
		}
		if err != nil {
			return preflight.ExplainTarget("cannot create table "+m.Spec.Name, err)
		}
	}
	for _, table := range in.streams {
		limited, cancel := task.WithTimeout(ctx, preflight.CreateTime)
		_, err := preflight.AskTarget(limited, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, in.to.EnableChangeStream(ctx, table)
		})
		cancel()
		if err != nil {
			return preflight.ExplainTarget("cannot enable the change stream of table "+table, err)
		}
		created("change stream of table " + table)
	}
	if len(d.Created) == 0 {
		_, _ = fmt.Fprintln(in.Out, "nothing to create")
	}
	return nil
}
