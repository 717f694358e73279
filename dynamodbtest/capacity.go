package dynamodbtest

import (
	"strconv"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest/item"
)

// Sizes of a capacity unit in bytes ("Read/write capacity mode").
const (
	readUnit  = 4096
	writeUnit = 1024
)

// meter adds up the capacity units that a request consumes of one table.
type meter struct {
	wanted bool
	table  string
	units  float64
}

// newMeter reads ReturnConsumedCapacity.
func newMeter(returned, table string) (meter, error) {
	switch returned {
	case "", "NONE":
		return meter{table: table}, nil
	case "TOTAL", "INDEXES":
		return meter{wanted: true, table: table}, nil
	}
	return meter{}, validation("1 validation error detected: Value at 'returnConsumedCapacity' failed to satisfy constraint: Member must satisfy enum value set: [INDEXES, TOTAL, NONE]")
}

// read counts a read of so many bytes: a unit for each 4 KB, half if not consistent, and
// at least the smallest part.
func (m *meter) read(size int, consistent bool) {
	units := float64(max(1, (size+readUnit-1)/readUnit))
	if !consistent {
		units /= 2
	}
	m.units += units
}

// write counts a write: a unit for each KB of the larger of the two images.
func (m *meter) write(size int) {
	m.units += float64(max(1, (size+writeUnit-1)/writeUnit))
}

// appendJSON appends the ConsumedCapacity structure.
func (m *meter) appendJSON(dst []byte) []byte {
	dst = append(dst, `{"TableName":`...)
	dst = item.AppendString(dst, m.table)
	dst = append(dst, `,"CapacityUnits":`...)
	dst = strconv.AppendFloat(dst, m.units, 'f', -1, 64)
	return append(dst, '}')
}

func sizeOf(it *stored) int {
	if it == nil {
		return 0
	}
	return it.size
}
