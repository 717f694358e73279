package sink

import (
	"context"
	"time"

	"cloud.google.com/go/bigtable"
)

// ChangeStreamKept is how long a change stream that replicator enables keeps its records. It is the
// longest time that Bigtable accepts.
const ChangeStreamKept = 7 * 24 * time.Hour

// LeastChangesKept is how long a change stream must keep its records, so that a fallback survives the
// loss of all processes over a weekend.
const LeastChangesKept = 3 * 24 * time.Hour

// ChangeStream returns how long the change stream of a table keeps its records; 0 if the table has no
// change stream.
func (a *Admin) ChangeStream(ctx context.Context, table string) (time.Duration, error) {
	info, err := a.tables.TableInfo(ctx, table)
	if err != nil {
		return 0, classifyControl("GetTable", err)
	}
	return keptBy(info), nil
}

// keptBy returns how long the change stream of a table keeps its records; 0 for none.
func keptBy(info *bigtable.TableInfo) time.Duration {
	kept, _ := info.ChangeStreamRetention.(time.Duration)
	return kept
}

// EnableChangeStream enables the change stream of an existing table, with ChangeStreamKept. If the
// table has one, it changes how long its records are kept.
func (a *Admin) EnableChangeStream(ctx context.Context, table string) error {
	return classifyControl("UpdateTable", a.tables.UpdateTableWithChangeStream(ctx, table, ChangeStreamKept))
}

func (a *Admin) createTable(ctx context.Context, spec TableSpec) error {
	families := make(map[string]bigtable.Family, len(spec.Families))
	for _, f := range spec.Families {
		families[f.Name] = f.family()
	}
	conf := &bigtable.TableConf{TableID: spec.Name, SplitKeys: spec.SplitKeys, ColumnFamilies: families}
	if spec.ChangeStream {
		conf.ChangeStreamRetention = ChangeStreamKept
	}
	return a.tables.CreateTableFromConf(ctx, conf)
}
