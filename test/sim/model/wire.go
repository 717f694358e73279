package model

import (
	"encoding/binary"
	"fmt"
	"strings"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/protobuf/proto"

	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

const tablePrefix = "projects/p/instances/i/tables/"

// received returns a request as a server decodes it from the sent bytes. The model executes nothing
// else.
func received(sent *sink.Request) *sink.Request {
	var in bigtablepb.CheckAndMutateRowRequest
	if err := proto.Unmarshal(sent.AppendProto(nil, tablePrefix+sent.Table, ""), &in); err != nil {
		panic(fmt.Sprintf("sim: a request that is no message: %v", err))
	}
	r := &sink.Request{Table: strings.TrimPrefix(in.TableName, tablePrefix), Row: string(in.RowKey)}
	filters := in.PredicateFilter.GetChain().GetFilters()
	value := filters[len(filters)-1].GetValueRangeFilter()
	r.Refuse.Exactly = len(value.GetEndValueClosed()) > 0
	mutations := in.FalseMutations
	if r.Refuse.Exactly {
		mutations, in.TrueMutations = in.TrueMutations, in.FalseMutations
	}
	if len(filters) != 2 || len(in.TrueMutations) > 0 || r.Refuse.Exactly && string(value.GetEndValueClosed()) != string(value.GetStartValueClosed()) {
		panic("sim: a request with another predicate than the guard's")
	}
	columns := filters[0].GetInterleave().GetFilters()
	if columns == nil {
		columns = filters[:1]
	}
	for _, f := range columns {
		column := f.GetColumnRangeFilter()
		r.Refuse.Families = append(r.Refuse.Families, column.GetFamilyName())
		r.Refuse.Qualifier = string(column.GetStartQualifierClosed())
		if end := string(column.GetEndQualifierOpen()); end != r.Refuse.Qualifier+"\x00" {
			panic("sim: a predicate of more than one column")
		}
	}
	r.Refuse.AtLeast = transform.Version(value.GetStartValueClosed())
	for _, m := range mutations {
		r.Ops = append(r.Ops, operation(m))
	}
	return r
}

// receivedBulk returns the entries of a bulk request as a server decodes them.
func receivedBulk(table string, sent []sink.Entry) []sink.Entry {
	var in bigtablepb.MutateRowsRequest
	if err := proto.Unmarshal(sink.AppendBulk(nil, tablePrefix+table, "", sent), &in); err != nil {
		panic(fmt.Sprintf("sim: a bulk request that is no message: %v", err))
	}
	if in.TableName != tablePrefix+table || len(in.Entries) != len(sent) {
		panic("sim: another bulk request than the one that was sent")
	}
	entries := make([]sink.Entry, len(in.Entries))
	for i, e := range in.Entries {
		entries[i].Row = string(e.RowKey)
		for _, m := range e.Mutations {
			entries[i].Ops = append(entries[i].Ops, operation(m))
		}
	}
	return entries
}

func operation(m *bigtablepb.Mutation) sink.Op {
	switch {
	case m.GetDeleteFromFamily() != nil:
		return sink.Op{Kind: sink.DeleteFamily, Family: m.GetDeleteFromFamily().FamilyName}
	case m.GetDeleteFromColumn() != nil:
		d := m.GetDeleteFromColumn()
		op := sink.Op{Kind: sink.DeleteColumn, Family: d.FamilyName, Qualifier: string(d.ColumnQualifier)}
		if d.TimeRange != nil {
			op.Kind, op.Timestamp = sink.DeleteFrom, d.TimeRange.StartTimestampMicros
			switch start, end := d.TimeRange.StartTimestampMicros, d.TimeRange.EndTimestampMicros; {
			case end != 0 && start == 0:
				op.Kind, op.Timestamp = sink.DeleteBefore, end
			case end == start+1000:
				op.Kind = sink.DeleteAt
			case end != 0:
				panic("sim: a delete of more than one time")
			}
		}
		return op
	case m.GetSetCell() != nil:
		s := m.GetSetCell()
		return sink.Op{Kind: sink.SetCell, Family: s.FamilyName, Qualifier: string(s.ColumnQualifier), Timestamp: s.TimestampMicros, Value: s.Value}
	case m.GetAddToCell() != nil:
		a := m.GetAddToCell()
		return sink.Op{Kind: sink.AddToCell, Family: a.FamilyName, Qualifier: string(a.ColumnQualifier.GetRawValue()), Timestamp: a.Timestamp.GetRawTimestampMicros(),
			Value: binary.BigEndian.AppendUint64(nil, uint64(a.Input.GetIntValue()))}
	}
	panic("sim: an operation that no request has")
}
