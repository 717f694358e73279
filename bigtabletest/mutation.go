package bigtabletest

import (
	"maps"
	"slices"
	"time"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
)

const (
	user      = bigtablepb.ReadChangeStreamResponse_DataChange_USER
	collected = bigtablepb.ReadChangeStreamResponse_DataChange_GARBAGE_COLLECTION
)

// deleteFromRow is the mutation that deletes a whole row.
var deleteFromRow = &bigtablepb.Mutation{Mutation: &bigtablepb.Mutation_DeleteFromRow_{DeleteFromRow: &bigtablepb.Mutation_DeleteFromRow{}}}

// families holds the column families in which rows have cells, by row.
type families map[string]map[string]bool

// keys lists the rows in order.
func (f families) keys() []string { return slices.Sorted(maps.Keys(f)) }

// expand returns mutations of a row as change streams show them. A row is deleted by the deletion
// of each of its families. It also applies the mutations to f.
func (f families) expand(row string, mutations []*bigtablepb.Mutation) []*bigtablepb.Mutation {
	var shown []*bigtablepb.Mutation
	if f[row] == nil {
		f[row] = map[string]bool{}
	}
	for _, m := range mutations {
		switch kind := m.Mutation.(type) {
		case *bigtablepb.Mutation_SetCell_:
			f[row][kind.SetCell.FamilyName] = true
		case *bigtablepb.Mutation_AddToCell_:
			f[row][kind.AddToCell.FamilyName] = true
		case *bigtablepb.Mutation_MergeToCell_:
			f[row][kind.MergeToCell.FamilyName] = true
		case *bigtablepb.Mutation_DeleteFromFamily_:
			delete(f[row], kind.DeleteFromFamily.FamilyName)
		case *bigtablepb.Mutation_DeleteFromRow_:
			for _, family := range slices.Sorted(maps.Keys(f[row])) {
				shown = append(shown, deleteFromFamily(family))
			}
			clear(f[row])
			continue
		}
		shown = append(shown, m)
	}
	return shown
}

func deleteFromFamily(family string) *bigtablepb.Mutation {
	return &bigtablepb.Mutation{Mutation: &bigtablepb.Mutation_DeleteFromFamily_{DeleteFromFamily: &bigtablepb.Mutation_DeleteFromFamily{FamilyName: family}}}
}

// deletesRow reports whether one of the mutations deletes the row.
func deletesRow(mutations []*bigtablepb.Mutation) bool {
	return slices.ContainsFunc(mutations, func(m *bigtablepb.Mutation) bool { return m.GetDeleteFromRow() != nil })
}

// stamp gives cells without a timestamp the current time, and truncates timestamps of client
// libraries to the granularity, which is in microseconds. The emulator does the same, but does not
// show the result, which belongs into the record.
func stamp(mutations []*bigtablepb.Mutation, now time.Time, unit int64) {
	for _, m := range mutations {
		set := m.GetSetCell()
		switch {
		case set == nil:
		case set.TimestampMicros == -1:
			set.TimestampMicros = now.UnixMicro() / unit * unit
		case m.TimestampOrigin == bigtablepb.Mutation_CLIENT_AUTO_GENERATED:
			set.TimestampMicros -= set.TimestampMicros % unit
		}
	}
}

// cellsOf returns the mutations that set the cells of a row.
func cellsOf(row *bigtablepb.Row) []*bigtablepb.Mutation {
	var mutations []*bigtablepb.Mutation
	for _, family := range row.GetFamilies() {
		for _, column := range family.Columns {
			for _, cell := range column.Cells {
				mutations = append(mutations, &bigtablepb.Mutation{Mutation: &bigtablepb.Mutation_SetCell_{SetCell: &bigtablepb.Mutation_SetCell{
					FamilyName: family.Name, ColumnQualifier: column.Qualifier, TimestampMicros: cell.TimestampMicros, Value: cell.Value,
				}}})
			}
		}
	}
	return mutations
}
