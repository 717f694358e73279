package comparison

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// Keys is the result of a comparison of single items. The ledger does not keep it.
type Keys struct {
	Clean bool `json:"clean"` // every key was compared, and none differs, stays in flight or is parked
	// Complete is false if an error ended the comparison before the last key.
	Complete  bool      `json:"complete"`
	BegunAt   time.Time `json:"begun_at"`
	EndedAt   time.Time `json:"ended_at"`
	Keys      int64     `json:"keys"` // number of keys that were compared
	Same      int64     `json:"same"`
	Differing int64     `json:"differing"`
	InFlight  int64     `json:"in_flight"`
	Parked    int64     `json:"parked"`
	Filtered  int64     `json:"filtered"`
	Unlocated int64     `json:"unlocated"`
	Rows      int64     `json:"rows"`     // number of rows that were compared
	LeftOut   int64     `json:"left_out"` // number of differing rows that are not listed or repaired
	// Listed are the keys that are not equal, at most 1,000. The first 100 equal keys are among them.
	Listed []Key `json:"listed"`
}

// Key is the result of one key.
type Key struct {
	Number  int64   `json:"number"` // line of the file, or place among the flags --key
	KeyHash string  `json:"key_hash"`
	Key     *string `json:"key"` // DynamoDB JSON; only with --show-values
	// Result is same, differs, in_flight, parked, filtered or unlocated.
	Result string    `json:"result"`
	Reason *string   `json:"reason"`
	Rows   []Finding `json:"rows"` // rows that differ or stay in flight
}

// comparedKeys returns the document of a comparison of single items, or nil.
func comparedKeys(t *table, values bool) *Keys {
	k := t.keyed
	if k == nil {
		return nil
	}
	out := &Keys{
		Complete: k.complete, BegunAt: k.begun.UTC(), EndedAt: k.ended.UTC(), Keys: k.keys, Same: k.of[keySame], Differing: k.of[keyDiffers], InFlight: k.of[keyInFlight],
		Parked: k.of[keyParked], Filtered: k.of[keyFiltered], Unlocated: k.of[keyUnlocated], Rows: k.rows, LeftOut: k.counts.LeftOut, Listed: []Key{},
	}
	out.Clean = k.complete && out.Differing+out.InFlight+out.Parked == 0
	for _, r := range k.listed {
		key := Key{Number: r.number, KeyHash: sink.HashOf(t.mapping.ItemKey(r.keys)), Result: r.result, Reason: terminal.Known(r.reason), Rows: []Finding{}}
		if text, err := attribute.MarshalItem(r.keys); err == nil && values {
			key.Key = terminal.Known(string(text))
		}
		for _, i := range r.found {
			key.Rows = append(key.Rows, FindingOf(t.mapping, t.list[i], values))
		}
		out.Listed = append(out.Listed, key)
	}
	return out
}

// keyTexts are the results of a key, for people.
var keyTexts = map[string]string{
	keySame: "same", keyDiffers: "differs", keyInFlight: "in flight", keyParked: "cannot be stored", keyFiltered: "not copied: its rule ignores it",
	keyUnlocated: "no such item; its key does not show its former row",
}

// renderKeys writes the document of a comparison of single items for people.
func (d *Document) renderKeys(w io.Writer) error {
	for _, t := range d.Tables {
		k := t.Keys
		tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(tab, "TABLE\tKEYS\tSAME\tDIFFER\tIN FLIGHT\tPARKED\tFILTERED\tUNLOCATED")
		_, _ = fmt.Fprintf(tab, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", t.Source, k.Keys, k.Same, k.Differing, k.InFlight, k.Parked, k.Filtered, k.Unlocated)
		if err := tab.Flush(); err != nil {
			return err
		}
		_, _ = fmt.Fprintln(w)
		for i, key := range k.Listed {
			if i == mostShown {
				_, _ = fmt.Fprintf(w, "and %s\n", terminal.Plural(int(k.Keys)-mostShown, "more key"))
				break
			}
			key.render(w)
		}
		if !k.Complete {
			_, _ = fmt.Fprintln(w, "the comparison did not reach the last key")
		}
		if t.Repair != nil {
			_, _ = fmt.Fprintln(w)
			if err := t.Repair.Render(w); err != nil {
				return err
			}
		}
	}
	return standing.WriteNext(w, d.NextSteps)
}

// render writes one key, and its rows that differ.
func (k Key) render(w io.Writer) {
	name := k.KeyHash
	if k.Key != nil {
		name = *k.Key
	}
	text := keyTexts[k.Result]
	if k.Reason != nil {
		text += "  (" + diag.Printable(*k.Reason) + ")"
	}
	_, _ = fmt.Fprintf(w, "%d  %s  %s\n", k.Number, name, text)
	for _, f := range k.Rows {
		_, _ = fmt.Fprintf(w, "   %s row in %s%s\n", strings.ReplaceAll(f.Kind, "_", " "), f.Target, f.details())
	}
}

// keysVerdict returns the error of the command: nil if no key differs, stays in flight or is parked.
func (o *Operator) keysVerdict(t *table) error {
	var found diag.List
	k, table := t.keyed, " of table "+t.config.From
	left := func(n int64, what, cause, fix string) {
		if n > 0 {
			found = append(found, &diag.Error{Code: diag.RowsDiffer, What: terminal.Plural(int(n), "key") + table + " " + what, Cause: cause, Fix: fix})
		}
	}
	differs := "differ from the source"
	if k.of[keyDiffers] == 1 {
		differs = "differs from the source"
	}
	left(k.of[keyInFlight], "stayed in flight", "changes were not applied while the keys were compared", "see replicator status"+o.With+", and repeat the command")
	switch {
	case t.repaired == nil:
		left(k.of[keyDiffers], differs, "the rows are listed above", "repeat the command with --repair; replicator explain --table "+t.config.From+" --key KEY explains one key")
		left(k.of[keyParked], "cannot be stored", "the reasons are listed above", "correct the items in the source, or see replicator parked list"+o.With)
	case t.repaired.Verdict() != nil:
		found = append(found, asDiag(t.repaired.Verdict()))
	default:
		left(k.of[keyParked], "cannot be stored", "the reasons are listed above", "correct the items in the source, or see replicator parked list"+o.With)
		if n := k.counts.LeftOut; n > 0 {
			found = append(found, &diag.Error{Code: diag.RowsDiffer, What: terminal.Plural(int(n), "row") + table + " were not repaired",
				Cause: "more rows differ than one command keeps", Fix: "repeat the command; it compares again and repairs the next rows"})
		}
	}
	return found.Err()
}
