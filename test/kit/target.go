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

// Target is Bigtable: rows, families and views of tables, the state table, and where its app
// profile leads.
type Target struct {
	*sinktest.Memory
	// Families and Views are those of each table.
	Families, Views map[string][]string
	// Where is the cluster that requests are led to.
	Where string
	// Refuse, if not nil, is asked before each change of a schema, and its error is the answer.
	Refuse func(change string) error

	m         *Migration
	records   sinktest.Records
	witnesses map[string]*checkpointtest.Memory
}

// WitnessStore is where the witnesses of a target table are.
func (t *Target) WitnessStore(table string) checkpoint.Store {
	if t.witnesses[table] == nil {
		t.witnesses[table] = &checkpointtest.Memory{}
	}
	return t.witnesses[table]
}

func newTarget(m *Migration) *Target {
	return &Target{m: m, Memory: &sinktest.Memory{}, Families: map[string][]string{}, Views: map[string][]string{}, witnesses: map[string]*checkpointtest.Memory{}}
}

// create makes a table that has its first number of the fence.
func (t *Target) create(table, fence string) {
	t.Memory.Create(table, "d", fence)
	t.Families[table] = []string{"d", sink.LiveFamily, sink.GoneFamily, fence}
}

// Ledger is the state table.
func (t *Target) Ledger(string) checkpoint.Store { return t.m.Store }

// Records are those of parked items.
func (t *Target) Records(string) sink.Records { return &t.records }

// Cluster is where requests are led to.
func (t *Target) Cluster(context.Context) (string, error) { return t.Where, nil }

// Close ends nothing.
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

// DropOwn removes a family of ours, whichever it is.
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

// DropDelay is how long a drop may not be in force yet.
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

// Damage sets a cell of a row as another program would, or removes the row where the value is "".
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
