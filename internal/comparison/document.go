package comparison

import (
	_ "embed"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/repair"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

const (
	// schemaName identifies the document's schema, verify.schema.json.
	schemaName = "replicator.verify/v1"
	// mostShown is the maximum number of findings of a table in the text, and mostListed the
	// maximum in the document.
	mostShown  = 20
	mostListed = 1000
)

// Schema describes the document of -o json.
//
//go:embed verify.schema.json
var Schema []byte

// The states of a table's verify.
const (
	StateNever   = "never"   // no verify was begun
	StateRunning = "running" // parts are being compared
	StatePaused  = "paused"
	StateDone    = "done"
	stateEnded   = "ended" // the last verify was cancelled, and no earlier verify has a result
)

// Document is the state of a migration's verifies: the document of every `verify` command with -o
// json. Unknown values are null.
type Document struct {
	Schema string    `json:"schema"`
	Name   string    `json:"name"`
	At     time.Time `json:"at"`
	// PricesDate is the date of the list prices.
	PricesDate string              `json:"prices_date"`
	Currency   string              `json:"currency"` // the currency of all costs
	Tables     []Table             `json:"tables"`
	NextSteps  []standing.NextStep `json:"next_steps"`

	left    error // the error of a new verify, if the application has left the source
	reverse bool  // the command compared items with their rows
}

// Table is one source table.
type Table struct {
	Source string `json:"source"`
	Target string `json:"target"`
	State  string `json:"state"`
	// Progress is null if no verify is running.
	Progress *Progress `json:"progress"`
	Result   *Result   `json:"result"` // null if no verify has completed
	// Repair is the outcome of a repair; null without one.
	Repair *repair.Document `json:"repair"`
	// Reverse is the last comparison of the items with their rows, after a cutover with a way back;
	// null without one.
	Reverse *Reverse `json:"reverse"`
	// Keys is the result of --key or --keys; null without them.
	Keys *Keys `json:"keys"`
}

// Progress is the progress of a verify.
type Progress struct {
	BegunAt *time.Time `json:"begun_at"`
	Way     string     `json:"way"` // the mode: quiet or live
	Why     string     `json:"why"` // why this mode was chosen
	Phase   int        `json:"phase"`
	Parts   Parts      `json:"parts"` // parts of the current phase
	Items   int64      `json:"items"` // items read from the source so far
	Rows    int64      `json:"rows"`  // rows read from the target so far
	// Estimate is DynamoDB's count of items, which may be hours old.
	Estimate  *int64  `json:"estimate"`
	Differing int64   `json:"differing"` // number of differing rows found so far
	ReadUnits float64 `json:"read_units"`
	// Spent is the cost so far: reads of the source, and egress from AWS.
	Spent      []cost.Line `json:"spent"`
	ETASeconds *float64    `json:"eta_seconds"`
}

// Parts counts the parts of a phase.
type Parts struct {
	Total int `json:"total"`
	Done  int `json:"done"`
	Held  int `json:"held"`
}

// Result is the result of a verify.
type Result struct {
	Clean bool `json:"clean"`
	// Stale reports that the result is more than a day old.
	Stale   bool      `json:"stale"`
	BegunAt time.Time `json:"begun_at"`
	EndedAt time.Time `json:"ended_at"`
	// RecheckedAt is when rows that had stayed in flight were last compared again; null if they were
	// not.
	RecheckedAt *time.Time  `json:"rechecked_at"`
	Way         string      `json:"way"`
	Why         string      `json:"why"`
	Sample      *float64    `json:"sample"` // the share of the items that was compared; null if all were
	Since       *time.Time  `json:"since"`  // only changes since this time were compared; null for all
	Items       int64       `json:"items"`
	Rows        int64       `json:"rows"`
	Compared    int64       `json:"compared"`
	Missing     int64       `json:"missing"`
	Different   int64       `json:"different"`
	Extra       int64       `json:"extra"`
	Foreign     int64       `json:"foreign"`
	InFlight    int64       `json:"in_flight"`
	Kept        int64       `json:"kept"`
	Unmapped    int64       `json:"unmapped"`
	LeftOut     int64       `json:"left_out"`
	ReadUnits   float64     `json:"read_units"`
	Spent       []cost.Line `json:"spent"`
	Blind       []string    `json:"blind"`    // kinds of differences that this comparison could not find
	Findings    []Finding   `json:"findings"` // the first thousand findings
}

// Finding is a row that differs from its item.
type Finding struct {
	Kind    string   `json:"kind"`
	Target  string   `json:"target"`
	KeyHash string   `json:"key_hash"` // the hash of the item's key, or of the row key if the item is unknown
	Key     *string  `json:"key"`      // only with --show-values: the item's key in DynamoDB JSON, or the row
	Columns []Column `json:"columns"`
	// MoreColumns is how many other columns differ.
	MoreColumns int     `json:"more_columns"`
	Reason      *string `json:"reason"`
}

// Column is a column that differs.
type Column struct {
	Column    string  `json:"column"`
	WantHash  *string `json:"want_hash"`
	HaveHash  *string `json:"have_hash"`
	WantValue *string `json:"want"` // the value in the item; only with --show-values
	HaveValue *string `json:"have"`
}

// KeyHash returns the hash that identifies a finding when keys are not shown. For the same item,
// parked items and the command `explain` show the same hash. If the item is unknown, it is a hash
// of the row key.
func KeyHash(m *transform.Mapping, f verify.Finding) string {
	name := f.Table + "\x00" + f.Row
	if f.Keys.Exists() {
		name = m.ItemKey(f.Keys)
	}
	return sink.HashOf(name)
}

// FindingOf converts a finding for the document. Values are shown if they are known and requested.
func FindingOf(m *transform.Mapping, f verify.Finding, values bool) Finding {
	out := Finding{Kind: string(f.Kind), Target: f.Table, KeyHash: KeyHash(m, f), Columns: []Column{}, MoreColumns: f.More, Reason: terminal.Known(f.Reason)}
	if values {
		key := diag.Quoted(f.Row)
		if f.Keys.Exists() {
			if text, err := attribute.MarshalItem(f.Keys); err == nil {
				key = string(text)
			}
		}
		out.Key = &key
	}
	for _, c := range f.Columns {
		column := Column{Column: columnName(c.Family, c.Qualifier), WantHash: terminal.Known(c.Want), HaveHash: terminal.Known(c.Have)}
		if want, have, there := c.Values(); values && there {
			column.WantValue, column.HaveValue = printed(want), printed(have)
		}
		out.Columns = append(out.Columns, column)
	}
	return out
}

func printed(value []byte) *string {
	if value == nil {
		return nil
	}
	text := diag.Quoted(string(value))
	return &text
}

// columnName returns the name of a column for people; an empty qualifier is left out.
func columnName(family, qualifier string) string {
	if qualifier == "" {
		return family + ":"
	}
	return family + ":" + diag.Quoted(qualifier)
}

// resultOf converts a result for the document.
func resultOf(r checkpoint.VerifyResult, prices cost.Prices, now time.Time) *Result {
	if !r.Known() {
		return nil
	}
	out := &Result{
		Clean: r.Clean(), Stale: r.Stale(now), BegunAt: r.BegunAt, EndedAt: r.EndedAt, Way: r.Way, Why: r.Why,
		Items: r.Items, Rows: r.Rows, Compared: r.Compared, Missing: r.Missing, Different: r.Different, Extra: r.Extra, Foreign: r.Foreign,
		InFlight: r.InFlight, Kept: r.Kept, Unmapped: r.Unmapped, LeftOut: r.LeftOut, ReadUnits: r.Units, Spent: prices.Spent(r.Units, r.Bytes), Blind: []string{}, Findings: []Finding{},
	}
	if r.Sample > 0 {
		out.Sample = &r.Sample
	}
	if !r.Since.IsZero() {
		out.Since = &r.Since
	}
	out.RecheckedAt = terminal.KnownTime(r.RecheckedAt)
	out.Blind = append(out.Blind, verify.ResultOf("", r).Blind...)
	return out
}

// stateText returns the state of a verify without a result, for people.
func (t Table) stateText() string {
	if t.State == StateNever {
		return terminal.NotStarted
	}
	return t.State
}

// render writes the document for people.
func (d *Document) render(w io.Writer) error {
	switch {
	case d.reverse:
		return d.renderReversed(w)
	case len(d.Tables) == 1 && d.Tables[0].Keys != nil:
		return d.renderKeys(w)
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tab, "TABLE\tVERIFY\tSCOPE\tITEMS\tROWS\tMISSING\tDIFFERENT\tEXTRA\tFOREIGN\tIN FLIGHT")
	for _, t := range d.Tables {
		switch r := t.Result; {
		case t.Progress != nil:
			_, _ = fmt.Fprintf(tab, "%s\t%s\t-\t%d\t%d\t-\t-\t-\t-\t-\n", t.Source, t.progressText(), t.Progress.Items, t.Progress.Rows)
		case r == nil:
			_, _ = fmt.Fprintf(tab, "%s\t%s\t-\t-\t-\t-\t-\t-\t-\t-\n", t.Source, t.stateText())
		default:
			_, _ = fmt.Fprintf(tab, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", t.Source, r.verdict(d.At), r.scope(), r.Items, r.Rows, r.Missing, r.Different, r.Extra, r.Foreign, r.InFlight)
		}
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	for _, t := range d.Tables {
		switch {
		case t.Progress != nil:
			d.renderCost(w, t.Source, t.Progress.ReadUnits, t.Progress.Spent)
		case t.Result != nil:
			t.renderFindings(w)
			d.renderCost(w, t.Source, t.Result.ReadUnits, t.Result.Spent)
		}
		if t.Repair != nil {
			_, _ = fmt.Fprintln(w)
			if err := t.Repair.Render(w); err != nil {
				return err
			}
		}
	}
	for _, t := range d.Tables {
		t.renderReverse(w)
	}
	if d.left != nil {
		_, _ = fmt.Fprintf(w, "\n%s\n", d.left)
	}
	return standing.WriteNext(w, d.NextSteps)
}

// renderCost writes the reads and the cost of a comparison. It writes nothing if the source did not
// report read units.
func (d *Document) renderCost(w io.Writer, source string, units float64, spent []cost.Line) {
	total := 0.0
	for _, line := range spent {
		total += line.Amount
	}
	if units > 0 {
		_, _ = fmt.Fprintf(w, "%s cost %.0f read units, %s %s at list prices of %s\n", source, units, cost.Money(total), d.Currency, d.PricesDate)
	}
}

func (t *Table) progressText() string {
	p := t.Progress
	text := fmt.Sprintf("%s: phase %d of %d, %d of %s", t.State, p.Phase, verify.Phases, p.Parts.Done, terminal.Plural(p.Parts.Total, "part"))
	if p.ETASeconds != nil {
		text += ", ETA " + backfill.FormatDuration(time.Duration(*p.ETASeconds*float64(time.Second)))
	}
	return text
}

// renderFindings writes the findings, and the kinds of differences that this comparison could not
// find.
func (t *Table) renderFindings(w io.Writer) {
	r := t.Result
	if r.Why != "" {
		_, _ = fmt.Fprintf(w, "\n%s: mode: %s (%s)\n", t.Source, modeText(verify.Way(r.Way)), r.Why)
	}
	if r.RecheckedAt != nil {
		_, _ = fmt.Fprintf(w, "rows in flight were compared again at %s\n", r.RecheckedAt.UTC().Format(time.RFC3339))
	}
	for _, text := range r.Blind {
		_, _ = fmt.Fprintf(w, "this mode does not find: %s\n", text)
	}
	if r.Kept > 0 {
		_, _ = fmt.Fprintf(w, "%s without an item may stay, because of expire: keep\n", terminal.Plural(int(r.Kept), "row"))
	}
	if r.Unmapped > 0 {
		_, _ = fmt.Fprintf(w, "%s cannot be mapped; see them with replicator parked list\n", terminal.Plural(int(r.Unmapped), "item"))
	}
	for i, f := range r.Findings {
		if i == mostShown {
			break
		}
		name := f.KeyHash
		if f.Key != nil {
			name = *f.Key
		}
		_, _ = fmt.Fprintf(w, "%s  %s  %s/%s%s\n", t.Source, strings.ReplaceAll(f.Kind, "_", " "), f.Target, name, f.details())
	}
	if more := r.Missing + r.Different + r.Extra + r.Foreign + r.InFlight - int64(min(len(r.Findings), mostShown)); more > 0 {
		_, _ = fmt.Fprintf(w, "%s  and %s\n", t.Source, terminal.Plural(int(more), "more row"))
	}
}

// modeText describes a mode of verify by the reads that it makes.
func modeText(way verify.Way) string {
	if way == verify.Quiet {
		return "checksums"
	}
	return "page by page"
}

func (f Finding) details() string {
	var columns []string
	for _, c := range f.Columns {
		text := c.Column
		if c.WantValue != nil || c.HaveValue != nil {
			text += fmt.Sprintf(" (want %s, have %s)", orNothing(c.WantValue), orNothing(c.HaveValue))
		}
		columns = append(columns, text)
	}
	if f.MoreColumns > 0 {
		columns = append(columns, terminal.Plural(f.MoreColumns, "more column"))
	}
	text := ""
	if len(columns) > 0 {
		text = "  " + strings.Join(columns, ", ")
	}
	if f.Reason != nil {
		text += "  (" + diag.Printable(*f.Reason) + ")"
	}
	return text
}

func orNothing(text *string) string {
	if text == nil {
		return "nothing"
	}
	return *text
}

func (r *Result) verdict(now time.Time) string {
	return checkpointResult(r).Verdict(now)
}

func checkpointResult(r *Result) checkpoint.VerifyResult {
	out := checkpoint.VerifyResult{EndedAt: r.EndedAt}
	out.Missing, out.Different, out.Extra, out.Foreign, out.InFlight = r.Missing, r.Different, r.Extra, r.Foreign, r.InFlight
	return out
}

func (r *Result) scope() string {
	switch {
	case r.Since != nil:
		return "changed since " + r.Since.UTC().Format(time.RFC3339)
	case r.Sample != nil:
		return fmt.Sprintf("%g%%", *r.Sample*100)
	}
	return "full"
}
