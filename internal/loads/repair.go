package loads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// The ways to repair a table, in the order in which one is chosen among those of the same price.
const (
	byWindows = "windows" // incremental exports, then a sweep of all other rows
	byExport  = "export"  // a full export
	byScan    = "scan"
)

// wayNames lists the ways to repair a table.
var wayNames = []string{byWindows, byExport, byScan}

// Way is one way to repair a table, with its price.
type Way struct {
	By string `json:"by"` // windows, export or scan
	// Chosen reports whether the command takes this way.
	Chosen bool `json:"chosen"`
	// Impossible explains why the way is not possible; null if it is.
	Impossible *string `json:"impossible"`
	// Seconds is the time that one worker needs. DynamoDB's own time for an export, minutes to
	// hours, comes in addition. It is null if the way is not possible.
	Seconds   *float64    `json:"seconds"`
	Exports   int         `json:"exports"` // number of exports that DynamoDB is asked for
	Cost      []cost.Line `json:"cost"`
	Total     float64     `json:"total"` // sum of the costs
	LimitedBy string      `json:"limited_by"`
}

// Repair is how an operator wants a table to be repaired.
type Repair struct {
	By string // windows, export or scan; "" for the cheapest
	To string // where DynamoDB writes exports; "" for the configured destination
}

// damage is everything from which the ways to repair a table follow.
type damage struct {
	state    checkpoint.TableState
	shards   []checkpoint.Shard
	of       backfill.Description
	mapping  *transform.Mapping
	recovery backfill.Recovery
	denied   error  // why the state of point-in-time recovery is unknown
	to       string // destination of exports; "" if there is none
	table    cost.Table
	oldest   time.Duration // see ImageAge
}

// Repair repairs a table that needs a load, in the cheapest way or in the given one. It shows the
// ways and their prices first.
func (o *Operator) Repair(ctx context.Context, how Repair) error {
	if !o.Yes && !o.DryRun && o.Confirm == nil {
		return diag.BadUsage("replicator backfill repair needs confirmation, but there is no terminal", "add --yes, or --dry-run to see the price")
	}
	if how.By != "" && !slices.Contains(wayNames, how.By) {
		return diag.BadUsage(fmt.Sprintf("--by %s is no way to repair a table", how.By), "write "+strings.Join(wayNames, ", ")+", or leave it out for the cheapest")
	}
	to, err := o.destination(how.To)
	if err != nil {
		return err
	}
	m, in, err := o.open(ctx, "backfill repair")
	if err != nil {
		return err
	}
	defer m.Close()
	r := Request{Action: ActionStart, Repair: true, Approve: o.Yes}
	decided := r.repairs(in.Tables[0])
	if decided.acts() {
		if r, decided, err = o.choose(ctx, m, in, r, how.By, to); err != nil {
			return err
		}
	}
	if decided.acts() && !o.DryRun {
		if err := o.approveWay(ctx, decided); err != nil {
			return err
		}
		if err := in.carryOut(ctx, r, []Decided{decided}); err != nil {
			return err
		}
	}
	d := in.judge(cost.Default(), o.With, m.Now(ctx))
	d.DryRun, d.Decided = o.DryRun, []Decided{decided}
	if err := o.write(d); err != nil {
		return err
	}
	if refused := refused(d.Decided, false); refused != nil || !o.Waits || o.DryRun {
		return shown(refused)
	}
	return in.wait(ctx, m, o.Console, o.With)
}

// destination returns where DynamoDB writes exports: the given address, or the configured one.
func (o *Operator) destination(given string) (string, error) {
	if address := cmp.Or(given, o.Cfg.Backfill.ExportsTo); address != "" {
		return source.Destination(address)
	}
	return "", nil
}

// repairs returns whether the table needs a repair, before the ways are known.
func (r Request) repairs(t TableInput) Decided {
	load := standing.LoadOf(t.State, false)
	none := Decided{Source: t.Config.From, Action: actionNone}
	switch {
	case !t.Found || t.State.Generation == 0:
		return r.decide(t)
	case load.State == standing.LoadAsked && NoExport(t.State) == "":
		none.Why = "a load is already requested; it begins once a worker has planned it"
		return none
	case !load.Needed:
		none.Why = "no change was lost, so there is nothing to repair"
		return none
	}
	return r.decide(t)
}

// choose asks the source what is possible, and returns the request for the chosen way.
func (o *Operator) choose(ctx context.Context, m *desk.Migration, in *Input, r Request, by, to string) (Request, Decided, error) {
	t := in.Tables[0]
	d, err := o.survey(ctx, m, in, to)
	if err != nil {
		return r, Decided{}, err
	}
	ways := d.ways(cost.Default())
	i, refusal := cheapest(ways, by)
	if refusal != "" {
		decided := Decided{Source: t.Config.From, Action: actionRefused, Why: refusal, Ways: ways}
		return r, decided, nil
	}
	ways[i].Chosen = true
	switch ways[i].By {
	case byWindows:
		r.wish = &requested{ExportRequest: checkpoint.ExportRequest{To: to, NotBefore: d.recovery.From, Incremental: true}}
	case byExport:
		r.wish = &requested{ExportRequest: checkpoint.ExportRequest{To: to, NotBefore: d.recovery.From}, line: cost.Default().Export(d.of.Bytes)}
	}
	decided := r.decide(t)
	decided.Ways = ways
	return r, decided, nil
}

// survey reads everything from which the ways to repair the table follow. A denied request does not
// end the command, because a scan may still be possible.
func (o *Operator) survey(ctx context.Context, m *desk.Migration, in *Input, to string) (damage, error) {
	if err := m.Connect(ctx); err != nil {
		return damage{}, err
	}
	t := in.Tables[0]
	d := damage{state: t.State, of: m.Tables[0].Description, mapping: m.Tables[0].Mapping, to: to, oldest: ImageAge(o.Cfg) / 2}
	var err error
	if d.recovery, err = m.From.Recovery(ctx, t.Config.From); cdc.Is(err, cdc.Denied) {
		d.denied = err
	} else if err != nil {
		return d, preflight.ExplainSource("cannot check whether table "+t.Config.From+" can be exported", t.Config.From, err)
	}
	if d.shards, err = in.ledger.Shards(ctx, t.Config.From); err != nil {
		return d, explain(ctx, "cannot read the ledger in table "+in.Cfg.State.Table, err)
	}
	limits := t.State.Limits.Over(Configured(in.Cfg.Backfill))
	d.table = cost.Table{Items: d.of.Items, Bytes: d.of.Bytes, ReadCapacity: d.of.ReadCapacity}
	d.table.RowsPerSecond, _ = limits.Rows()
	d.table.ReadLimit, _ = limits.ReadUnits(d.of.ReadCapacity)
	return d, nil
}

// noExport returns why DynamoDB cannot be asked for an export; "" if it can.
func (d damage) noExport() string {
	switch {
	case d.to == "":
		return "no bucket is given: set backfill.exports_to, or add --export s3://BUCKET"
	case d.denied != nil:
		return "this identity lacks the permission dynamodb:DescribeContinuousBackups"
	case !d.recovery.On:
		return "point-in-time recovery is off: " + preflight.RecoveryCommand(d.state.Source)
	}
	return ""
}

// noWindows returns why windows cannot repair the table; "" if they can.
func (d damage) noWindows() string {
	var never *checkpoint.NotAdmissible
	old := func(s checkpoint.Shard) bool { return s.Owner != "" && !s.RequestsWindows() }
	span := d.span()
	switch err := checkpoint.Mendable(d.state); {
	case errors.As(err, &never):
		return never.Reason
	case d.noExport() != "":
		return d.noExport()
	case errors.As(checkpoint.Unbroken(d.recovery.From, d.state.WindowsBy()), &never):
		return never.Reason
	case d.mapping.Outlives():
		return "windows do not show which items the time to live has removed, and this mapping keeps their rows (expire: keep)"
	case slices.ContainsFunc(d.shards, old):
		return "a worker of an older version runs, which cannot read such a request: update the workers first"
	case len(span) > checkpoint.MaxExports:
		return fmt.Sprintf("the time needs %d windows, but a load takes at most %d", len(span), checkpoint.MaxExports)
	}
	if err := source.YoungEnough("first window", checkpoint.Aged(span[0].To, d.state.AdoptedAt), d.of.At, d.oldest); err != nil {
		return err.Error()
	}
	return ""
}

// span returns the windows that a worker would request now.
func (d damage) span() []source.Window {
	end := d.of.At.Add(-source.Recoverable).Truncate(time.Second)
	return source.Windows(source.Since(d.state.WindowsBy(), end), end)
}

// ways returns every way to repair the table with its price, in the order of wayNames.
func (d damage) ways(p cost.Prices) (all []Way) {
	windows, export, scan := Way{By: byWindows, Impossible: terminal.Known(d.noWindows())}, Way{By: byExport, Impossible: terminal.Known(d.noExport())}, Way{By: byScan}
	if windows.Impossible == nil {
		span, changes := d.span(), 0.0
		for _, s := range standing.Open(d.state, d.shards) {
			changes += s.Rate
		}
		windows.Exports = len(span)
		windows.price(p.ByWindows(d.table, len(span), changes*span[len(span)-1].To.Sub(span[0].From).Seconds()))
	}
	if export.Impossible == nil {
		export.Exports = 1
		export.price(p.ByExport(d.table))
	}
	scan.price(p.ByScan(d.table))
	return []Way{windows, export, scan}
}

func (w *Way) price(c cost.Copy, lines []cost.Line) {
	seconds := c.Time.Seconds()
	w.Seconds, w.LimitedBy, w.Cost = &seconds, c.LimitedBy, lines
	for _, line := range lines {
		w.Total += line.Amount
	}
}

// cheapest returns the index of the given way, or of the cheapest one that is possible. Prices are
// compared in hundredths, because estimates are not more precise. It returns why there is none.
func cheapest(ways []Way, by string) (index int, refusal string) {
	cents := func(w Way) float64 { return math.Round(w.Total * 100) }
	index = -1
	for i, w := range ways {
		switch {
		case by != "" && w.By != by:
		case w.Impossible != nil && by != "":
			return -1, fmt.Sprintf("a repair by %s is not possible: %s", w.By, *w.Impossible)
		case w.Impossible == nil && (index < 0 || cents(w) < cents(ways[index])):
			index = i
		}
	}
	return index, ""
}

// approveWay shows the ways and asks for confirmation.
func (o *Operator) approveWay(ctx context.Context, d Decided) error {
	if o.Yes {
		return nil
	}
	if err := o.Console.Show(o.Stderr, func(w io.Writer) error { return writeWays(w, d.Ways, cost.Default().Currency) }); err != nil {
		return err
	}
	i := slices.IndexFunc(d.Ways, func(w Way) bool { return w.Chosen })
	return o.Confirm(ctx, fmt.Sprintf("Repair table %s by %s, for about %s %s?", d.Source, d.Ways[i].By, cost.Money(d.Ways[i].Total), cost.Default().Currency))
}

// writeWays writes one line for each way.
func writeWays(w io.Writer, ways []Way, currency string) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, way := range ways {
		mark := " "
		if way.Chosen {
			mark = "*"
		}
		_, _ = fmt.Fprintf(tab, "%s %s\t%s\n", mark, way.By, way.text(currency))
	}
	return tab.Flush()
}

// text describes the price and the duration of a way, or why it is not possible.
func (w Way) text(currency string) string {
	if w.Impossible != nil {
		return "not possible: " + *w.Impossible
	}
	text := cost.Money(w.Total) + " " + currency
	if *w.Seconds > 0 {
		text += ", about " + backfill.FormatDuration(time.Duration(*w.Seconds*float64(time.Second))) + " with one worker"
	}
	if w.Exports > 0 {
		text += ", after " + terminal.Plural(w.Exports, "export") + " (DynamoDB takes minutes to hours)"
	}
	var parts []string
	for _, line := range w.Cost {
		parts = append(parts, line.What+" "+line.Quantity)
	}
	return text + ": " + strings.Join(parts, ", ")
}
