package kit

import (
	"context"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Target is Bigtable: the rows, families and views of tables, the state table, and the cluster to
// which its app profile routes.
type Target struct {
	*sinktest.Memory
	// Families and Views hold the names for each table.
	Families, Views map[string][]string
	// Where is the cluster to which requests are routed.
	Where string
	// Refuse, if not nil, is called before each schema change, and its error is returned.
	Refuse func(change string) error

	m         *Migration
	records   sinktest.Records
	witnesses map[string]*checkpointtest.Memory
}

// WitnessStore returns the store with the witnesses of a target table.
func (t *Target) WitnessStore(table string) checkpoint.Store {
	if t.witnesses[table] == nil {
		t.witnesses[table] = &checkpointtest.Memory{}
	}
	return t.witnesses[table]
}

func newTarget(m *Migration) *Target {
	return &Target{m: m, Memory: &sinktest.Memory{}, Families: map[string][]string{}, Views: map[string][]string{}, witnesses: map[string]*checkpointtest.Memory{}}
}

// create adds a table with its first fence family.
func (t *Target) create(table, fence string) {
	t.Memory.Create(table, "d", fence)
	t.Families[table] = []string{"d", sink.LiveFamily, sink.GoneFamily, fence}
}

// Ledger returns the state table.
func (t *Target) Ledger(string) checkpoint.Store { return t.m.Store }

// Records returns the store of parked items.
func (t *Target) Records(string) sink.Records { return &t.records }

// Cluster returns the cluster to which requests are routed.
func (t *Target) Cluster(context.Context) (string, error) { return t.Where, nil }

// Close does nothing.
func (t *Target) Close() error { return nil }

func (t *Target) refused(change string) error {
	if t.Refuse == nil {
		return nil
	}
	return t.Refuse(change)
}

// ListFamilies lists the families of a table.
func (t *Target) ListFamilies(_ context.Context, table string) ([]string, error) {
	return slices.Clone(t.Families[table]), nil
}

// CreateFamily adds a family.
func (t *Target) CreateFamily(_ context.Context, table, family string) error {
	if err := t.refused("create " + family); err != nil {
		return err
	}
	t.Families[table] = append(t.Families[table], family)
	return nil
}

// DropFamily removes a family.
func (t *Target) DropFamily(_ context.Context, table, family string) error {
	if err := t.refused("drop " + family); err != nil {
		return err
	}
	t.Families[table] = slices.DeleteFunc(t.Families[table], func(f string) bool { return f == family })
	return nil
}

// DropOwn removes one of replicator's families.
func (t *Target) DropOwn(ctx context.Context, table, family string) error {
	return t.DropFamily(ctx, table, family)
}

// DropView removes a view.
func (t *Target) DropView(_ context.Context, table, view string) error {
	if err := t.refused("drop view " + view); err != nil {
		return err
	}
	t.Views[table] = slices.DeleteFunc(t.Views[table], func(v string) bool { return v == view })
	return nil
}

// DropDelay is the longest time until a drop takes effect.
func (t *Target) DropDelay() time.Duration { return 20 * time.Second }

// Load writes the images of a table's items to its target, as a load does.
func (m *Migration) Load(source string) {
	m.Helper()
	table, _ := m.Config.Table(source)
	mapping, err := table.Mapping(primaryKey)
	m.Must(err)
	page, err := m.Source.Scan(m.Ctx, source, 0, 1, Item(""), 0)
	m.Must(err)
	for _, row := range transform.Load(mapping, page.Items, generation, m.Now()).Rows {
		request := sink.Guard(row)
		_, err := m.Target.Apply(m.Ctx, &request)
		m.Must(err)
	}
}

// Damage sets a cell of a row as another program would. If the value is "", it removes the row.
func (m *Migration) Damage(table, row, family, qualifier, value string) {
	m.Helper()
	ops := []sink.Op{{Kind: sink.SetCell, Family: family, Qualifier: qualifier, Timestamp: m.Now().UnixMicro(), Value: []byte(value)}}
	if value == "" {
		ops = nil
		for _, name := range []string{"d", sink.LiveFamily, sink.GoneFamily} {
			ops = append(ops, sink.Op{Kind: sink.DeleteFamily, Family: name})
		}
	}
	request := sink.Request{Table: table, Row: row, Ops: ops, Refuse: sink.Predicate{Families: []string{sink.LiveFamily}, Qualifier: "none", AtLeast: "x"}}
	_, err := m.Target.Apply(m.Ctx, &request)
	m.Must(err)
}
