package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// WayBack is the way back of a table: whether its items can follow its rows after a cutover.
type WayBack struct {
	// Mapping is the table's mapping, with the time to live of the source. Its cells are those of
	// the configured mapping.
	Mapping *transform.Mapping
	// Expires is the attribute by which the source removes items; "" for none.
	Expires string
	// Types are the types of attributes whose cells do not show them, as far as items were sampled.
	Types transform.Types
	// Obstacles are the reasons why items cannot follow rows, as texts that a user can act on. With
	// an obstacle, no fallback can be kept.
	Obstacles []string
	// Losses are what a fallback does not carry to the items. An operator may accept them.
	Losses []string
}

// WayBackOf returns the way back of a table as the configuration and its description show it. It
// has no types, and the time to live of the configuration.
func WayBackOf(t Table) WayBack {
	w := WayBack{Mapping: t.Mapping, Expires: t.Config.TTL.Attribute}
	w.judge(t)
	return w
}

// judge adds the obstacles and losses that the mapping and the description show.
func (w *WayBack) judge(t Table) {
	w.Obstacles, w.Losses = w.Mapping.NotInvertible(), nil
	if replicas := t.Description.Replicas; len(replicas) > 0 {
		w.Obstacles = append(w.Obstacles, "the table is a global table with replicas in "+strings.Join(replicas, ", ")+", which may write its items too; remove the replicas")
	}
	if len(w.Obstacles) > 0 {
		return
	}
	const stay = ": they stay as they are in an item, and are lost if the item is deleted and made again"
	switch names, others := w.Mapping.Dropped(); {
	case others:
		w.Losses = append(w.Losses, "rows hold only the attributes that the rules name, and not the others"+stay)
	case len(names) > 0:
		w.Losses = append(w.Losses, "rows do not hold attributes "+quoted(names)+stay)
	}
}

// Census reads what is known of the items of source tables.
type Census interface {
	// Sample returns up to n items, and the read units that they cost.
	Sample(ctx context.Context, table string, n int) ([]attribute.Item, float64, error)
	// Attribute returns the attribute by which a table's items expire; "" if items do not expire.
	Attribute(ctx context.Context, table string) (string, error)
}

// censusItems is the number of items whose types are read. Only types that these items have can be
// carried back.
const censusItems = 10 * DefaultSample

// mostTyped is the maximum number of attributes whose types are kept.
const mostTyped = 2000

// censusTime is the time limit for the census of one table. It takes about a hundred small requests.
const censusTime = time.Minute

// TakeCensus returns the way back of a table with the time to live of the source. If cells do not
// show the types of values, it also reads a sample of items for their types.
func TakeCensus(ctx context.Context, from Census, t Table) (WayBack, error) {
	ctx, cancel := task.WithTimeout(ctx, censusTime)
	defer cancel()
	expires, err := from.Attribute(ctx, t.Config.From)
	if err != nil {
		return WayBack{}, ExplainSource("cannot read the time to live of table "+t.Config.From, t.Config.From, err)
	}
	w, err := WayBackExpiring(t, expires)
	if err != nil || len(w.Obstacles) > 0 {
		return w, err
	}
	if names, others := w.Mapping.NeedsTypes(); len(names) == 0 && !others {
		return w, nil
	}
	items, _, err := from.Sample(ctx, t.Config.From, censusItems)
	if err != nil {
		return w, ExplainSource("cannot read items of table "+t.Config.From, t.Config.From, err)
	}
	w.AddTypes(items)
	return w, nil
}

// WayBackExpiring returns the way back of a table whose source removes items by the given attribute. The
// configuration may name none, because that changes no cell.
func WayBackExpiring(t Table, attribute string) (WayBack, error) {
	if attribute == t.Config.TTL.Attribute || t.Config.ExpiresByGC() {
		return WayBackOf(t), nil
	}
	t.Config.TTL = config.TTL{}
	if attribute != "" {
		t.Config.TTL = config.TTL{Attribute: attribute, Expire: "follow_deletes"}
	}
	m, err := MapTable(t.Config, t.Description.PrimaryKey)
	if err != nil {
		return WayBack{}, err
	}
	t.Mapping = m
	return WayBackOf(t), nil
}

// WayBackRecorded returns the way back of a table with the time to live and the types that the plan of
// its cutover has recorded.
func WayBackRecorded(t Table, form checkpoint.CutoverForm) (WayBack, error) {
	w, err := WayBackExpiring(t, form.Expires)
	if err != nil {
		return WayBack{}, err
	}
	w.Types = transform.Types{}
	if len(form.Types) > 0 {
		if err := json.Unmarshal(form.Types, &w.Types); err != nil {
			return WayBack{}, fmt.Errorf("the recorded types of table %s: %w", t.Config.From, err)
		}
	}
	return w, nil
}

// AddTypes adds the types of sampled items, and what follows from them. It does nothing if there is
// an obstacle already, or if all cells show their types.
func (w *WayBack) AddTypes(items []attribute.Item) {
	names, others := w.Mapping.NeedsTypes()
	if len(w.Obstacles) > 0 || len(names) == 0 && !others {
		return
	}
	all := transform.Types{}
	for _, item := range items {
		all.Add(item)
	}
	w.Types = transform.Types{}
	for name, seen := range all {
		if others || slices.Contains(names, name) {
			w.Types[name] = seen
		}
	}
	w.Obstacles = append(w.Obstacles, w.Mapping.Unclear(w.Types)...)
	if len(w.Types) > mostTyped {
		w.Obstacles = append(w.Obstacles, fmt.Sprintf("items have more than %d attributes whose cells do not show their types; write them as: dynamodb_json", mostTyped))
	}
	if names = slices.DeleteFunc(names, func(name string) bool { return w.Types[name].Kinds != 0 }); len(names) > 0 {
		w.Losses = append(w.Losses, fmt.Sprintf("no item of a sample of %d has attributes %s: a row that has one is parked, because its cell does not show the type", len(items), quoted(names)))
	}
	if others {
		w.Losses = append(w.Losses, fmt.Sprintf("a row with an attribute that no item of a sample of %d has is parked, because its cell does not show the type", len(items)))
	}
}

// quoted lists names of attributes, which may hold any character.
func quoted(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = strconv.Quote(name)
	}
	return strings.Join(all, ", ")
}
