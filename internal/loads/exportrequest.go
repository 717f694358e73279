package loads

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// requested is an export that will be requested. A check has shown that the export is possible.
type requested struct {
	checkpoint.ExportRequest
	line cost.Line // cost of the export
}

// String describes where the export goes and its cost.
func (r *requested) String() string {
	if r.Incremental {
		return ", by windows that a worker requests to " + r.To
	}
	return ", from an export to " + r.To + " of " + costText(cost.Default(), r.line)
}

// costText describes the cost of an export. The estimate uses the byte count that DynamoDB reports.
func costText(p cost.Prices, line cost.Line) string {
	price := p.Prices[line.Price]
	return fmt.Sprintf("about %s: about %s %s, by the list price of %s, %v %s a GB (%s)", line.Quantity, cost.Money(line.Amount), p.Currency, p.Date, price.Price, p.Currency, price.Source)
}

// prepareExport checks that an export of the request's table can be requested, and estimates its
// cost. The command does not request the export itself: the coordinator does and waits for it,
// because an export may take longer than the command runs.
func (o *Operator) prepareExport(ctx context.Context, m *desk.Migration, in *Input, r Request) (*requested, error) {
	to, err := source.Destination(r.From[0])
	if err != nil {
		return nil, err
	}
	if err := m.Connect(ctx); err != nil {
		return nil, err
	}
	table := in.Tables[0].Config.From
	recovery, err := m.From.Recovery(ctx, table)
	if err != nil {
		return nil, preflight.ExplainSource("cannot check whether table "+table+" can be exported", table, err)
	}
	if !recovery.On {
		return nil, &diag.Error{Code: diag.LoadRefused, What: "cannot request an export of table " + table,
			Cause: "its point-in-time recovery is off, and DynamoDB exports only tables for which it is on", Fix: "turn it on, then repeat the command: " + preflight.RecoveryCommand(table)}
	}
	return &requested{checkpoint.ExportRequest{To: to, NotBefore: recovery.From}, cost.Default().Export(m.Tables[0].Description.Bytes)}, nil
}

// exportText describes the progress of the export for which a load waits; "" if the load waits for
// no export.
func exportText(l checkpoint.Load) string {
	r := l.Request
	switch {
	case !r.Wanted() || l.Export.Address != "" || l.Generation != 0:
		return ""
	case r.Refused():
		return "the " + source.Noun(r.To) + " " + r.To + " is refused: " + r.Failed
	case r.Failed != "" && r.Incremental:
		return "the windows failed: " + r.Failed
	case r.Failed != "":
		return "the export failed: " + r.Failed
	case r.Incremental && len(r.Windows) > 0:
		return windowsText(r.Windows)
	case r.Incremental:
		return "windows to " + r.To + " are planned once the stream has been read for long enough"
	case r.ARN != "":
		return fmt.Sprintf("an export as of %s is running: %s", r.At.Format(time.RFC3339), r.ARN)
	case r.Serial > 0:
		return fmt.Sprintf("an export as of %s to %s is being requested from DynamoDB", r.At.Format(time.RFC3339), r.To)
	}
	return "an export to " + r.To + " is requested once the stream is read from its beginning"
}

// windowsText counts requested windows by their progress.
func windowsText(all []checkpoint.WindowRequest) string {
	count := map[checkpoint.WindowState]int{}
	for _, w := range all {
		count[w.State()]++
	}
	text := fmt.Sprintf("%d of %s from %s to %s completed", count[checkpoint.WindowCompleted], terminal.Plural(len(all), "window"), all[0].From.Format(time.RFC3339), all[len(all)-1].To.Format(time.RFC3339))
	if n := count[checkpoint.WindowRunning]; n > 0 {
		text += fmt.Sprintf(", %d in progress", n)
	}
	return text
}

// CopiedFrom returns the address of the export that an unfinished load copies; "" if the load scans
// the table.
func CopiedFrom(l checkpoint.Load) string {
	all := l.Exports()
	if len(all) == 0 || !l.DoneAt.IsZero() {
		return ""
	}
	text := "from the " + source.Noun(all[0].Address) + " " + all[0].Address
	if n := len(all) - 1; n > 0 {
		text += " and " + terminal.Plural(n, "window")
	}
	return text + ", as of " + l.ImagesAt().UTC().Format(time.RFC3339)
}

// toBegin reports whether the time of the generation's beginning is not known yet. Such a
// generation begins later than every existing export, so those exports are too old.
func toBegin(s checkpoint.TableState) bool { return s.GapCount > 0 && s.AdoptedAt.IsZero() }

// NoExport returns why a requested export will not be made, so that the load waits for an operator.
// It returns "" if the load does not wait for an operator.
func NoExport(s checkpoint.TableState) string {
	if s.Stage() != checkpoint.StageAsked || s.Load.Request.Failed == "" {
		return ""
	}
	return exportText(s.Load)
}

// againText returns the command that requests the table's export again, or that starts a load from
// the refused export. It has the form that standing.Command needs.
func againText(s checkpoint.TableState) string {
	if s.Load.Request.Refused() {
		return "backfill start --table TABLE --export " + s.Load.Request.To
	}
	if s.Load.Request.Incremental {
		return "backfill repair TABLE --export " + s.Load.Request.To
	}
	return "backfill start --table TABLE --request-export --export " + s.Load.Request.To
}
