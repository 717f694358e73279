package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/itemfile"
	"github.com/dynamodb-bigtable/replicator/internal/itemkey"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Choice selects the items of a table to preview: one item by its key in JSON, the first items of a
// scan, or the items of a file.
type Choice struct {
	Key, File string
	Sample    int // number of items to take from the scan or the file
	// PrimaryKey has the names of the key attributes of the file's items. If it is empty, they are
	// read from the source.
	PrimaryKey string
}

// Previews returns the rows to which the chosen items map, as if they were written now.
func Previews(ctx context.Context, env config.Lookup, cfg *config.Config, t config.Table, chosen Choice) ([]Preview, error) {
	read := itemsOfSource
	if chosen.File != "" {
		read = itemsOfFile
	}
	m, items, err := read(ctx, env, cfg, t, chosen)
	if err != nil {
		return nil, err
	}
	return previewsOf(m, cfg, t, items, task.Now(ctx)), nil
}

// itemsOfSource reads one item by its key, or the first items of a scan.
func itemsOfSource(ctx context.Context, env config.Lookup, cfg *config.Config, t config.Table, f Choice) (*transform.Mapping, []attribute.Item, error) {
	ctx, cancel := preflight.Reading(ctx)
	defer cancel()
	src, found, err := openTable(ctx, env, cfg, t)
	if err != nil {
		return nil, nil, err
	}
	if f.Sample > 0 {
		page, err := src.Tables.Scan(ctx, t.From, 0, 1, attribute.Item{}, f.Sample)
		if err != nil {
			return nil, nil, preflight.ExplainSource("cannot scan table "+t.From, t.From, err)
		}
		return found.Mapping, page.Items, nil
	}
	key, err := itemkey.Parse(f.Key, found.Description.PrimaryKey)
	if err != nil {
		return nil, nil, err
	}
	item, ok, err := src.Tables.Get(ctx, t.From, key)
	switch {
	case err != nil:
		return nil, nil, preflight.ExplainSource("cannot read an item of table "+t.From, t.From, err)
	case !ok:
		return nil, nil, &diag.Error{Code: diag.ItemNotFound, What: "table " + t.From + " has no item with this key"}
	}
	return found.Mapping, []attribute.Item{item}, nil
}

// openTable connects to the source and describes one table. The source may be an emulator.
func openTable(ctx context.Context, env config.Lookup, cfg *config.Config, t config.Table) (*preflight.Source, preflight.Table, error) {
	if err := environment.Check(env, environment.Anything).Err(); err != nil {
		return nil, preflight.Table{}, err
	}
	src, err := preflight.ConnectSource(ctx, cfg)
	if err != nil {
		return nil, preflight.Table{}, err
	}
	limited, cancel := task.WithTimeout(ctx, preflight.ProbeTime)
	defer cancel()
	found, err := preflight.DescribeTable(limited, src.Tables, t)
	return src, found, err
}

// itemsOfFile reads items of a file. The key schema comes from the given names and the types of the
// items' values, or else from the source.
func itemsOfFile(ctx context.Context, env config.Lookup, cfg *config.Config, t config.Table, f Choice) (*transform.Mapping, []attribute.Item, error) {
	items, err := readItems(f.File, f.Sample)
	if err != nil {
		return nil, nil, err
	}
	if f.PrimaryKey == "" {
		_, found, err := openTable(ctx, env, cfg, t)
		if err != nil {
			var known *diag.Error
			if errors.As(err, &known) && known.Fix == "" {
				known.Fix = "or give --primary-key PK,SK with the names of the table's key attributes, to work offline"
			}
			return nil, nil, err
		}
		return found.Mapping, items, nil
	}
	var schema []transform.KeyAttribute
	for name := range strings.SplitSeq(f.PrimaryKey, ",") {
		v, ok := items[0].Get(name)
		if !ok {
			return nil, nil, diag.BadUsage(fmt.Sprintf("the item has no attribute %q, but --primary-key names it", name), "use the table's names, for example --primary-key PK,SK")
		}
		schema = append(schema, transform.KeyAttribute{Name: name, Type: v.Kind()})
	}
	m, err := preflight.MapTable(t, schema)
	var found diag.List
	if errors.As(err, &found) {
		return nil, nil, err // err holds several findings, each with its position and fix
	}
	if err != nil {
		return nil, nil, &diag.Error{Code: diag.Usage, What: "--primary-key does not match the item", Err: err, Fix: "name one or two attributes of type S, N or B"}
	}
	return m, items, nil
}

// readItems reads the first items of a file, or all if `limit` is 0. The path "-" means stdin.
func readItems(path string, limit int) ([]attribute.Item, error) {
	in := io.Reader(os.Stdin)
	fail := func(err error) ([]attribute.Item, error) {
		fix := "use DynamoDB's JSON, for example the output of: aws dynamodb get-item --table-name TABLE --key KEY"
		var known *itemfile.FormatError
		switch {
		case errors.As(err, &known):
			fix = known.Fix
		case errors.Is(err, itemfile.ErrTooLarge):
			fix = "show fewer items: --sample 20"
		}
		return nil, &diag.Error{Code: diag.Usage, What: "cannot read the item in " + path, Cause: err.Error(), Fix: fix}
	}
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return fail(err)
		}
		defer file.Close()
		if info, err := file.Stat(); err == nil && info.IsDir() {
			return fail(&itemfile.FormatError{What: "it is a folder", Fix: "name a file in it, such as one of an export's data folder"})
		}
		in = file
	}
	items, err := itemfile.Read(in, limit)
	if err == nil && len(items) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return fail(err)
	}
	return items, nil
}
