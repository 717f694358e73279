package comparison

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/page"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/verify"
)

//go:embed report.html
var pageText string

// shown holds the data of the page's template.
type shown struct {
	*Document
	Tables   []shownTable
	Style    template.CSS
	Policy   string // the content security policy, which allows only the page's own style
	Clean    bool
	Compared bool   // a table has a result
	Verdict  string // the result of all tables, in one sentence
}

// shownTable is a table on the page.
type shownTable struct{ Table }

// meanings explain the kinds of differences.
var meanings = map[string]string{
	string(verify.Missing):   "an item has no row where the mapping puts it",
	string(verify.Different): "the row exists, but cells of its item differ",
	string(verify.Extra):     "the row's item does not exist, or belongs in another row",
	string(verify.Foreign):   "cells that replicator did not write and no item explains",
	string(verify.InFlight):  "the change was not applied at any check, so the row is not judged",
}

// KindText returns the kind of a finding in words.
func KindText(kind string) string { return strings.ReplaceAll(kind, "_", " ") }

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"scope": func(r *Result) string { return r.scope() },
	"verdict": func(r *Result, at time.Time) string {
		return r.verdict(at)
	},
	"time":      func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"total":     func(r *Result) int64 { return r.differing() + r.InFlight },
	"differing": (*Result).differing,
	"family":    func(c Column) string { family, _, _ := strings.Cut(c.Column, ":"); return family },
	"took":      func(r *Result) string { return r.EndedAt.Sub(r.BegunAt).Round(time.Second).String() },
	"columns":   func(f Finding) string { return terminal.Plural(len(f.Columns), "column") },
	"meaning":   func(kind string) string { return meanings[kind] },
	"kind":      KindText,
	"keytext":   func(result string) string { return keyTexts[result] },
	"harmless":  func(result string) bool { return result == keySame || result == keyFiltered || result == keyUnlocated },
	"text":      orNothing,
	"len64":     func(f []Finding) int64 { return int64(len(f)) },
}).Parse(pageText))

// writePage writes the document as one self-contained HTML page. It shows keys, and names of
// columns that come from items, only if the document contains them (ShowValues).
func writePage(w io.Writer, d *Document) error { return pageTemplate.Execute(w, shownOf(d)) }

// shownOf returns the template's data for a document. The page is "all clean" if every table has a
// result that is clean and not stale, and no verify is running.
func shownOf(d *Document) shown {
	p := shown{Document: d, Style: page.Style(), Policy: page.Policy(), Clean: true}
	dirty, rows := 0, int64(0)
	for _, t := range d.Tables {
		row := shownTable{t}
		p.Tables = append(p.Tables, row)
		p.Compared = p.Compared || t.Result != nil || t.Keys != nil
		p.Clean = p.Clean && row.Good()
		if n := row.differing(); n > 0 {
			dirty, rows = dirty+1, rows+n
		}
	}
	switch {
	case !p.Compared:
		p.Verdict = "Nothing was compared."
	case p.Clean:
		p.Verdict = "Source and target are equal in everything that was compared."
	case len(d.Tables) == 1 && d.Tables[0].Keys != nil:
		p.Verdict = p.Tables[0].Verdict(d.At) + "."
	case rows > 0:
		p.Verdict = fmt.Sprintf("%s, in %d of %s.", terminal.RowsDiffer(int(rows), "the target"), dirty, terminal.Plural(len(d.Tables), "table"))
	default:
		p.Verdict = "No row is known to differ, but some were not compared, stayed in flight or were compared long ago."
	}
	return p
}

func (r *Result) differing() int64 { return r.Missing + r.Different + r.Extra + r.Foreign }

func (t shownTable) differing() int64 {
	switch {
	case t.Keys != nil:
		return t.Keys.Differing
	case t.Result != nil:
		return t.Result.differing()
	}
	return 0
}

// Good reports whether the table's result is complete, recent, and without a difference.
func (t shownTable) Good() bool {
	if t.Keys != nil {
		return t.Keys.Clean
	}
	return t.Result != nil && t.Result.Clean && !t.Result.Stale && t.Progress == nil
}

// Verdict returns the result of the table in a few words.
func (t shownTable) Verdict(at time.Time) string {
	switch k := t.Keys; {
	case k != nil && !k.Complete:
		return fmt.Sprintf("incomplete: %d of %s differ so far", k.Differing, terminal.Plural(int(k.Keys), "key"))
	case k != nil && k.Differing > 0:
		return fmt.Sprintf("%d of %s differ", k.Differing, terminal.Plural(int(k.Keys), "key"))
	case k != nil && k.Clean:
		return "no difference"
	case k != nil:
		return fmt.Sprintf("%d in flight, %d cannot be stored", k.InFlight, k.Parked)
	case t.Progress != nil:
		return "a comparison is running"
	case t.Result == nil:
		return "never compared"
	}
	return t.Result.verdict(at)
}

// ToDo returns what the reader should do about the table.
func (t shownTable) ToDo() string {
	switch {
	case t.Repair != nil && t.Repair.AtMost != nil:
		return "see what differs, then repair with a higher limit"
	case t.Repair != nil && !t.Repair.DryRun && t.Repair.Repaired > 0:
		return "compare again, to confirm the repair"
	case t.Progress != nil:
		return "wait for the end of the comparison"
	case t.differing() > 0:
		return "see why rows differ: replicator explain; then repair them: verify --repair"
	case t.Keys != nil && t.Keys.Parked > 0:
		return "correct the items in the source: replicator parked list"
	case t.Keys != nil && t.Keys.InFlight > 0:
		return "compare the keys again"
	case t.Good():
		return "nothing"
	case t.Keys == nil && t.Result != nil && t.Result.InFlight > 0:
		return "compare rows in flight again: verify --in-flight"
	}
	return "compare the table: replicator verify"
}
