package parked

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/itemkey"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// RefHelp explains references, in the help of commands that take one.
const RefHelp = `REF is TABLE/HASH/VERSION, as "list -o json" prints it. TABLE/HASH or HASH names the item.
The first digits of HASH are enough if they are unique, at least 8.`

// Selection selects the parked records for a command.
type Selection struct {
	Refs   []string // positional arguments
	Table  string
	Key    string // JSON
	Reason string // text that the record's reason contains
	All    bool
}

// Record is a parked record with its reference.
type Record struct {
	Ref sink.Ref
	transform.Parked
}

// Check refuses selections that are contradictory or empty. So a command without arguments never
// selects all records.
func (s *Selection) Check(command string) error {
	ways := 0
	for _, given := range []bool{len(s.Refs) > 0, s.Key != "", s.All || s.Reason != ""} {
		if given {
			ways++
		}
	}
	switch {
	case s.Key != "" && !isObject(s.Key):
		return diag.BadUsage("--key: it is not a JSON object", `give the whole primary key, for example --key '{"PK":"…","SK":"…"}'`)
	case s.Key != "" && s.Table == "":
		return diag.BadUsage("--key needs --table", "name the source table whose primary key it is")
	case ways == 0:
		return diag.BadUsage(command+" needs the items to work on", "name them as `replicator parked list` shows them, or give --table and --key, --reason, or --all")
	case ways > 1:
		return diag.BadUsage("references, --key, and --all or --reason exclude each other", "give one of them")
	}
	return nil
}

func isObject(text string) bool {
	var members map[string]json.RawMessage
	return json.Unmarshal([]byte(text), &members) == nil && members != nil
}

// fits reports whether a record is selected. It returns an error if the selected key does not have
// the key attributes of the record's table.
func (s *Selection) fits(ref sink.Ref, record transform.Parked) (bool, error) {
	switch {
	case s.Table != "" && record.Source != s.Table, !strings.Contains(record.Reason, s.Reason):
		return false, nil
	case s.Key != "":
		key, err := itemkey.ParseLike(s.Key, record.Change.Keys)
		return err == nil && key.Equal(record.Change.Keys), err
	case len(s.Refs) > 0:
		return slices.ContainsFunc(s.Refs, func(word string) bool { return names(word, ref) }), nil
	}
	return true, nil
}

// leastHash is the least number of digits of a hash that can name an item. The digits must identify
// one item.
const leastHash = 8

// names reports whether an argument of the command line names a record.
func names(word string, ref sink.Ref) bool {
	source, hash, _ := ref.Parts()
	beginning, ofTable := strings.CutPrefix(word, source+"/")
	return word == string(ref) || (ofTable || beginning == word) && len(beginning) >= leastHash && strings.HasPrefix(hash, beginning)
}

// each calls f for the selected records, ordered by table, item and version. Before the first run
// there is no state table, and so there are no parked items.
func (s *Selection) each(ctx context.Context, lot *sink.Parking, f func(sink.Ref, transform.Parked) error) error {
	err := lot.List(ctx, s.Table, func(ref sink.Ref, record transform.Parked) error {
		ok, err := s.fits(ref, record)
		if err != nil || !ok {
			return err
		}
		return f(ref, record)
	})
	var failed *sink.Error
	if errors.As(err, &failed) && failed.Code == codes.NotFound.String() || status.Code(err) == codes.NotFound {
		return nil
	}
	return err
}

// Find returns the selected records. Named records must exist. A hash without a table must match
// exactly one item.
func (s *Selection) Find(ctx context.Context, lot *sink.Parking) ([]Record, error) {
	var found []Record
	err := s.each(ctx, lot, func(ref sink.Ref, record transform.Parked) error {
		found = append(found, Record{ref, record})
		return nil
	})
	if err != nil {
		return nil, err
	}
	if s.Key != "" && len(found) == 0 {
		return nil, notParked("no parked record has this key")
	}
	for _, word := range s.Refs {
		tables, hashes := map[string]bool{}, map[string]bool{}
		for _, record := range found {
			if names(word, record.Ref) {
				_, hash, _ := record.Ref.Parts()
				tables[record.Source], hashes[hash] = true, true
			}
		}
		switch {
		case len(tables) == 0:
			return nil, notParked("no parked record has this reference")
		case len(hashes) > 1:
			return nil, diag.BadUsage("several parked items begin with "+word, "give more digits, or the whole hash: `replicator parked list -o json` prints it")
		case len(tables) > 1:
			return nil, diag.BadUsage("this hash matches items of several tables", "write TABLE/HASH")
		}
	}
	return found, nil
}

func notParked(what string) error {
	return &diag.Error{Code: diag.Usage, What: what, Fix: "take one from `replicator parked list`", Cause: "a later change may have resolved it",
		Exit: diag.ExitNo}
}

// nothing returns the message that no record is selected.
func (s *Selection) nothing() string {
	switch {
	case s.Reason != "":
		return "no item is parked for such a reason"
	case s.Table != "":
		return fmt.Sprintf("table %s has no parked items", s.Table)
	}
	return "nothing is parked"
}

// ByItem groups ordered records by item.
func ByItem(records []Record) [][]Record {
	var items [][]Record
	for i, record := range records {
		if i > 0 && records[i-1].Source == record.Source && records[i-1].Key == record.Key {
			items[len(items)-1] = append(items[len(items)-1], record)
			continue
		}
		items = append(items, []Record{record})
	}
	return items
}
