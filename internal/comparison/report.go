package comparison

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
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
	Keys    *Keys   `json:"keys,omitempty"`     // only on the last line of a comparison of single items, without its list
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
			shown := FindingOf(t.mapping, f, true)
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
		if keys := comparedKeys(t, false); keys != nil {
			keys.Listed = []Key{}
			last.Result, last.LeftOut, last.Keys = nil, &keys.LeftOut, keys
		} else if result != nil {
			last.LeftOut = &result.LeftOut
		}
		if err := out.Encode(last); err != nil {
			return err
		}
	}
	return nil
}
