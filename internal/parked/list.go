package parked

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Explain explains an error from the store of parked items. It returns explained errors unchanged.
func Explain(ctx context.Context, cfg *config.Config, err error) error {
	var told *diag.Error
	if err == nil || errors.As(err, &told) {
		return err
	}
	return preflight.ReadingFailed(ctx, "cannot read parked items in table "+cfg.State.Table, err)
}

// Entry is one line of the list.
type Entry struct {
	Ref     string    `json:"ref"`
	Table   string    `json:"table"`
	KeyHash string    `json:"key_hash"`
	Version string    `json:"version"`
	Event   string    `json:"event"` // INSERT, MODIFY or REMOVE; INSERT for an item that a scan read
	Time    time.Time `json:"time"`  // time of the change
	Reason  string    `json:"reason"`
}

// EntryOf returns the line of the list for a parked record.
func EntryOf(ref sink.Ref, record transform.Parked) Entry {
	_, hash, _ := ref.Parts()
	return Entry{Ref: string(ref), Table: record.Source, KeyHash: hash, Version: string(record.Version),
		Event: record.Change.Event.String(), Time: record.Change.Time.UTC(), Reason: record.Reason}
}

// List writes the selected records, one line each or as one document.
func List(ctx context.Context, p *terminal.Console, cfg *config.Config, s *Selection) error {
	entries := []Entry{}
	if err := read(ctx, p, cfg, desk.Request{Command: "parked list", Table: s.Table}, func(ctx context.Context, lot *sink.Parking) error {
		return s.each(ctx, lot, func(ref sink.Ref, record transform.Parked) error {
			entries = append(entries, EntryOf(ref, record))
			return nil
		})
	}); err != nil {
		return err
	}
	if p.AsJSON() {
		return p.WriteJSON(struct {
			Schema string  `json:"schema"`
			Items  []Entry `json:"items"`
		}{"replicator.parked/v1", entries})
	}
	if len(entries) == 0 {
		_, err := fmt.Fprintln(p.Stdout, s.nothing())
		return err
	}
	return p.Show(p.Stdout, func(w io.Writer) error { return writeEntries(w, entries) })
}

// The list fits a terminal of listWidth columns. To fit, table names are shortened, and long
// reasons continue on the next line.
const (
	listWidth   = 100
	shownHash   = 12 // digits of the hash that are shown, of 32
	widestTable = 40
	betweenCols = 2
)

// writeEntries writes the entries as text. The text has shortened references. Only the JSON
// document has whole references.
func writeEntries(w io.Writer, entries []Entry) error {
	widest := len("TABLE")
	for _, e := range entries {
		widest = max(widest, len(shortTable(e.Table)))
	}
	room := listWidth - widest - shownHash - len(time.RFC3339[:20]) - 3*betweenCols
	tab := tabwriter.NewWriter(w, 0, 0, betweenCols, ' ', 0)
	_, _ = fmt.Fprintln(tab, "TABLE\tKEY HASH\tTIME\tREASON")
	for _, e := range entries {
		first, rest, more := strings.Cut(terminal.Wrap(diag.Printable(e.Reason), room), "\n")
		_, _ = fmt.Fprintf(tab, "%s\t%.*s\t%s\t%s\n", shortTable(e.Table), shownHash, e.KeyHash, e.Time.Format(time.RFC3339), first)
		for more {
			first, rest, more = strings.Cut(rest, "\n")
			_, _ = fmt.Fprintf(tab, "\t\t\t%s\n", first)
		}
	}
	return tab.Flush()
}

// shortTable returns the name of a table, shortened for the list. Table names are ASCII.
func shortTable(name string) string {
	if len(name) <= widestTable {
		return name
	}
	return name[:widestTable-len("...")] + "..."
}

// Show writes one whole record. The output contains item data: the images of the change.
func Show(ctx context.Context, p *terminal.Console, cfg *config.Config, s *Selection) error {
	var found []Record
	err := read(ctx, p, cfg, desk.Request{Command: "parked show", Table: s.Table}, func(ctx context.Context, lot *sink.Parking) (err error) {
		found, err = s.Find(ctx, lot)
		return err
	})
	if err != nil {
		return err
	}
	if len(found) > 1 {
		return diag.BadUsage("several parked records match", "give a whole reference: TABLE/HASH/VERSION, from `replicator parked list -o json`")
	}
	record := found[0]
	change, err := cdc.MarshalChange(record.Change)
	if err != nil {
		return err
	}
	return p.WriteJSON(struct {
		Schema string `json:"schema"`
		Entry
		Key    string          `json:"key"`
		Change json.RawMessage `json:"change"`
	}{"replicator.parked_item/v1", EntryOf(record.Ref, record.Parked), record.Key, change})
}
