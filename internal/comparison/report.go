package comparison

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/page"
)

// lineSchema names the form of a report's lines.
const lineSchema = "replicator.verify_report/v1"

// line is one line of a report. A table has one line for each recorded difference, and then one
// line with its counts.
type line struct {
	Schema string `json:"schema"` // replicator.verify_report/v1
	Source string `json:"source"`
	// Kind is the kind of the difference; empty on the last line of a table.
	Kind    string   `json:"kind,omitempty"`
	Target  string   `json:"target,omitempty"`
	Row     string   `json:"row,omitempty"` // the row key, quoted if it is not plain text
	Key     string   `json:"key,omitempty"` // the item's key in DynamoDB's JSON; empty for foreign rows
	KeyHash string   `json:"key_hash,omitempty"`
	Version string   `json:"version,omitempty"` // the version in the row
	Columns []Column `json:"columns,omitempty"`
	// MoreColumns is how many other columns differ.
	MoreColumns int    `json:"more_columns,omitempty"`
	Reason      string `json:"reason,omitempty"`
	// Listed is the number of lines of the table; only on the last line of a table.
	Listed  *int    `json:"listed,omitempty"`
	LeftOut *int64  `json:"left_out,omitempty"` // number of differences without a line; only on the last line of a table
	Result  *Result `json:"result,omitempty"`   // only on the last line of a table
}

// report writes the file with a line for each difference, and the page next to it. Only the user
// may read the file, because it holds keys.
func (o *Operator) report(d *Document) error {
	if o.Report == "" {
		return nil
	}
	err := write(o.Report, func(w io.Writer) error { return o.lines(w, d.At) })
	if err == nil {
		err = write(pageName(o.Report), func(w io.Writer) error { return writePage(w, d) })
	}
	return o.unwritten(err)
}

// checkReport checks that the report's file can be written. A verify may take hours, so the check
// comes first.
func (o *Operator) checkReport() error {
	if o.Report == "" {
		return nil
	}
	f, err := os.OpenFile(o.Report, os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		err = f.Close()
	}
	return o.unwritten(err)
}

func (o *Operator) unwritten(err error) error {
	if err == nil {
		return nil
	}
	return &diag.Error{Code: diag.Usage, What: "cannot write the report " + o.Report, Cause: err.Error(), Fix: "name a file in a directory that exists and is writable", Err: err}
}

// pageName returns the path of a report's page.
func pageName(report string) string {
	return strings.TrimSuffix(report, filepath.Ext(report)) + ".html"
}

func write(name string, content func(w io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(f)
	err = content(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// lines writes the report's lines of all tables, with results as of the given time.
func (o *Operator) lines(w io.Writer, now time.Time) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	for i := range o.tables {
		t := &o.tables[i]
		if t.mapping == nil {
			continue
		}
		for _, f := range t.list {
			shown := findingOf(t.mapping, f, true)
			line := line{Schema: lineSchema, Source: t.config.From, Kind: shown.Kind, Target: shown.Target, Row: diag.Quoted(f.Row), KeyHash: shown.KeyHash,
				Version: string(f.Version), Columns: shown.Columns, MoreColumns: shown.MoreColumns, Reason: f.Reason}
			if f.Keys.Exists() {
				line.Key = *shown.Key
			}
			for c := range line.Columns {
				if !o.ShowValues {
					line.Columns[c].WantValue, line.Columns[c].HaveValue = nil, nil
				}
			}
			if err := out.Encode(line); err != nil {
				return err
			}
		}
		n, result := len(t.list), resultOf(t.state.Verify.Result, cost.Default(), now)
		last := line{Schema: lineSchema, Source: t.config.From, Listed: &n, Result: result}
		if result != nil {
			last.LeftOut = &result.LeftOut
		}
		if err := out.Encode(last); err != nil {
			return err
		}
	}
	return nil
}

//go:embed report.html
var pageText string

// shown holds the data of the page's template.
type shown struct {
	*Document
	Style    template.CSS
	Policy   string // the content security policy, which allows only the page's own style
	Clean    bool
	Compared bool
}

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"scope": func(r *Result) string { return r.scope() },
	"verdict": func(r *Result, at time.Time) string {
		return r.verdict(at)
	},
	"time":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"total":  func(r *Result) int64 { return r.Missing + r.Different + r.Extra + r.Foreign + r.InFlight },
	"family": func(c Column) string { family, _, _ := strings.Cut(c.Column, ":"); return family },
	"took":   func(r *Result) string { return r.EndedAt.Sub(r.BegunAt).Round(time.Second).String() },
	"values": func(f Finding) bool { return f.Key != nil },
	"text":   orNothing,
	"len64":  func(f []Finding) int64 { return int64(len(f)) },
}).Parse(pageText))

// writePage writes the document as one self-contained HTML page. It shows keys, and names of
// columns that come from items, only if the document contains them (ShowValues).
func writePage(w io.Writer, d *Document) error { return pageTemplate.Execute(w, shownOf(d)) }

// shownOf returns the template's data for a document. The page is "all clean" if every table has a
// result that is clean and not stale, and no verify is running.
func shownOf(d *Document) shown {
	p := shown{Document: d, Style: page.Style(), Policy: page.Policy(), Clean: true}
	for _, t := range d.Tables {
		p.Compared = p.Compared || t.Result != nil
		p.Clean = p.Clean && t.Result != nil && t.Result.Clean && !t.Result.Stale && t.Progress == nil
	}
	return p
}
