package preflight

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
)

// KnownTable refuses a --table that the configuration does not include.
func KnownTable(cfg *config.Config, table string) error {
	if table == "" {
		return nil
	}
	var names, patterns []string
	if _, ok := cfg.Table(table); ok {
		return nil
	}
	for _, t := range cfg.Tables {
		if t.IsPattern() {
			patterns = append(patterns, t.From)
			continue
		}
		names = append(names, t.From)
	}
	fix := "use one of " + strings.Join(names, ", ")
	if len(patterns) > 0 {
		fix = "use the name of a table that matches " + strings.Join(patterns, " or ")
		if len(names) > 0 {
			fix += ", or one of " + strings.Join(names, ", ")
		}
	}
	if near := diag.Suggest(table, names); near != "" {
		fix = "did you mean " + near + "?"
	}
	return diag.BadUsage(fmt.Sprintf("the configuration has no source table %q", table), fix)
}

// readTime is the time limit for a command's reads of Bigtable. Without it, an endpoint that cannot
// be reached would block the command forever.
const readTime = 20 * time.Second

var ErrReadTime = fmt.Errorf("no answer within %s", timespan.Format(readTime))

// Reading returns a context with the time limit for reads.
func Reading(ctx context.Context) (context.Context, context.CancelFunc) {
	return task.WithTimeoutCause(ctx, readTime, ErrReadTime)
}

// ReadingFailed explains a read error. If the reads reached the time limit, the error says so.
func ReadingFailed(ctx context.Context, what string, err error) error {
	if errors.Is(context.Cause(ctx), ErrReadTime) {
		return &diag.Error{Code: diag.TargetUnreachable, What: what, Err: ErrReadTime}
	}
	if ctx.Err() != nil {
		return terminal.Ended(ctx)
	}
	return ExplainLedger(what, err)
}
