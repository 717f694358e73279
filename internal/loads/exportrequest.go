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

// requested is an export to request, after a check that it is possible.
type requested struct {
	checkpoint.ExportRequest
	line cost.Line // its cost
}

// costText returns the cost of an export, estimated from the source's own count of bytes.
func costText(p cost.Prices, line cost.Line) string {
	price := p.Prices[line.Price]
	return fmt.Sprintf("about %s: about %s %s, by the list price of %s, %v %s a GB (%s)", line.Quantity, cost.Money(line.Amount), p.Currency, p.Date, price.Price, p.Currency, price.Source)
}

// prepareExport checks that an export of the request's table can be requested, and estimates its
// cost. The coordinator requests the export and waits for it, because the operator's command and
// machine may end earlier.
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
			Cause: "its point-in-time recovery is off, and DynamoDB exports only tables that have it", Fix: "turn it on, then repeat the command: " + preflight.RecoveryCommand(table)}
	}
	return &requested{checkpoint.ExportRequest{To: to, NotBefore: recovery.From}, cost.Default().Export(m.Tables[0].Description.Bytes)}, nil
}

// exportText returns the progress of the export that a load waits for; "" if it waits for none.
func exportText(l checkpoint.Load) string {
	r := l.Request
	switch {
	case !r.Wanted() || l.Export.Address != "" || l.Generation != 0:
		return ""
	case r.Refused():
		return "the " + source.Noun(r.To) + " " + r.To + " is refused: " + r.Failed
	case r.Failed != "":
		return "the export failed: " + r.Failed
	case r.ARN != "":
		return fmt.Sprintf("an export as of %s is running: %s", r.At.Format(time.RFC3339), r.ARN)
	case r.Serial > 0:
		return fmt.Sprintf("an export as of %s to %s is being requested from DynamoDB", r.At.Format(time.RFC3339), r.To)
	}
	return "an export to " + r.To + " is requested once the stream is read from its beginning"
}

// CopiedFrom returns the source of a load that is not over; "" if it scans.
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

// toBegin reports whether the generation has not begun yet by the service's clock. It will admit no
// existing export, although a later read of the ledger shows more.
func toBegin(s checkpoint.TableState) bool { return s.GapCount > 0 && s.AdoptedAt.IsZero() }

// NoExport returns why a table's load waits for an operator, because its requested export will not
// arrive; "" if it does not wait.
func NoExport(s checkpoint.TableState) string {
	if s.Stage() != checkpoint.StageAsked || s.Load.Request.Failed == "" {
		return ""
	}
	return exportText(s.Load)
}

// againText returns the command, in the form of standing.Command, that requests the table's export
// again or starts a load of the refused export.
func againText(s checkpoint.TableState) string {
	if s.Load.Request.Refused() {
		return "backfill start --table TABLE --export " + s.Load.Request.To
	}
	return "backfill start --table TABLE --request-export --export " + s.Load.Request.To
}
