package sim

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/dynamodb-bigtable/replicator/examples"
	"github.com/dynamodb-bigtable/replicator/expression"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/mappingtest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// mappings holds folders like those of the examples, made for the simulation. They use the risky
// features more often than examples for people do.
//
//go:embed mappings
var mappings embed.FS

// shape is a mapping with items that fit it.
type shape struct {
	name     string
	entry    config.Table
	mapping  *transform.Mapping
	families []string // as Bigtable.Create takes them
	layout   layout
	samples  []attribute.Item
	// steers holds the attributes that decide where an item goes: through conditions, row keys and
	// cell columns. ttl is its time to live.
	steers map[string]bool
	ttl    string
	// outlives keeps items in the target that the time to live removes.
	outlives bool
}

// shapes returns all examples and the mappings made for the simulation, in order.
var shapes = sync.OnceValue(func() []*shape {
	var all []*shape
	for _, folders := range []struct {
		files fs.FS
		root  string
	}{{examples.Files, "."}, {mappings, "mappings"}} {
		found, err := fs.Glob(folders.files, path.Join(folders.root, "*/replicator.yaml"))
		if err != nil {
			panic(err)
		}
		for _, file := range found {
			s, err := newShape(folders.files, path.Dir(file))
			if err != nil {
				panic(fmt.Sprintf("%s: %v", file, err))
			}
			all = append(all, s)
		}
	}
	return all
})

// MappingNames returns the names of all possible mappings of a run: the folders of examples, and
// mappings/<name> for those of the simulation.
func MappingNames() []string {
	var names []string
	for _, s := range shapes() {
		names = append(names, s.name)
	}
	return names
}

// shapeOf draws a mapping for a seed, in half of the cases one that was made for the simulation.
// Most seeds keep theirs when a mapping is added.
func shapeOf(seed uint64) string {
	var best uint64
	var drawn string
	made := stream(seed, "made").IntN(2) == 0
	for _, s := range shapes() {
		if made && !strings.HasPrefix(s.name, "mappings/") {
			continue
		}
		if n := stream(seed, s.name).Uint64(); n >= best {
			best, drawn = n, s.name
		}
	}
	return drawn
}

func shapeNamed(name string) *shape {
	all := shapes()
	return all[slices.IndexFunc(all, func(s *shape) bool { return s.name == name })]
}

// ownVersions lists the mappings under which several items may have columns in one row, so that
// each of them has its own version.
var ownVersions = []string{"mappings/returning", "mappings/shared"}

func newShape(files fs.FS, folder string) (*shape, error) {
	example, err := mappingtest.ReadFS(files, folder)
	if err != nil {
		return nil, err
	}
	c, err := config.Parse(mappingtest.ConfigPart, example.Config, func(string) (string, bool) { return "", false })
	if err != nil {
		return nil, err
	}
	source := example.Table
	entry, ok := example.TableOf(c)
	if !ok {
		return nil, fmt.Errorf("no entry is for table %s", source)
	}
	s := &shape{name: folder, entry: entry, steers: map[string]bool{}, ttl: entry.TTL.Attribute, outlives: entry.TTL.Expire == "keep"}
	if s.mapping, err = entry.Mapping(example.Key()); err != nil {
		return nil, err
	}
	for _, f := range entry.TargetFamilies() {
		name := f.Name
		if f.Aggregate != transform.NoAggregate {
			name += ":" + string(f.Aggregate)
		}
		s.families = append(s.families, name)
	}
	if s.samples, err = itemsOf(example); err != nil {
		return nil, err
	}
	s.layout = mapped{s.mapping}
	if naiveKnows(&entry) {
		n := newNaive(&entry, s.mapping)
		n.own = slices.Contains(ownVersions, folder)
		s.layout = n
	}
	return s, s.steering(&entry)
}

// itemsOf returns the items of an example, including those that its changes put.
func itemsOf(e *mappingtest.Example) ([]attribute.Item, error) {
	items, err := e.Items()
	if err != nil {
		return nil, err
	}
	changes, err := e.Changes()
	for _, c := range changes {
		if c.Put.Exists() {
			items = append(items, c.Put)
		}
	}
	return items, err
}

// steering finds the attributes that decide where an item goes.
func (s *shape) steering(entry *config.Table) error {
	template := func(text string) error {
		t, err := transform.ParseTemplate(text)
		if err != nil {
			return err
		}
		for _, name := range t.Attributes() {
			s.steers[name] = true
		}
		return nil
	}
	for _, r := range entry.Rules {
		if r.When != "" {
			when, err := expression.ParseWhen(r.When)
			if err != nil {
				return err
			}
			for _, name := range when.Attributes() {
				s.steers[name] = true
			}
		}
		for _, w := range append([]config.Write{{RowKey: r.RowKey, Cell: r.Cell}}, r.Write...) {
			_, qualifier, _ := strings.Cut(w.Cell.To, ":")
			for _, text := range []string{w.RowKey, qualifier} {
				if err := template(text); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// naiveKnows reports whether the naive mapping supports a configuration entry. Package transform
// has tests for the rest.
func naiveKnows(entry *config.Table) bool {
	if entry.Preset != "" {
		return false
	}
	for _, r := range entry.Rules {
		for _, w := range append([]config.Write{{RowKey: r.RowKey, Columns: r.Columns, Cell: r.Cell}}, r.Write...) {
			if strings.Contains(w.RowKey+w.Cell.To, "{$") { // a part of the table's name
				return false
			}
			for _, call := range naiveCalls.FindAllStringSubmatch(w.RowKey+w.Cell.To, -1) {
				if !slices.Contains(naiveFunctions, call[1]) {
					return false
				}
			}
			for _, c := range w.Columns {
				if !slices.Contains([]string{"", "text", "json", "dynamodb_json", "int64", "counter"}, c.As) {
					return false
				}
			}
		}
	}
	return true
}

var naiveCalls = regexp.MustCompile(`\|\s*([a-z_]+)`)
