package dynamodbtest

import (
	"strconv"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Sizes of a capacity unit in bytes ("Read/write capacity mode").
const (
	readUnit  = 4096
	writeUnit = 1024
)

// meter adds up the capacity units that a request consumes on one table and its indexes.
type meter struct {
	returned      string // ReturnConsumedCapacity
	table         string
	units         float64 // units of the table itself
	global, local map[string]float64
	// kind is "Read" or "Write" for operations that report the kind in addition to the sum.
	// Transactions are such operations.
	kind string
}

// newMeter returns a meter for a request whose ReturnConsumedCapacity was checked by enumCapacity.
func newMeter(returned, table string) meter { return meter{returned: returned, table: table} }

func (m *meter) wanted() bool { return m.returned == "TOTAL" || m.returned == "INDEXES" }

// read counts a read of size bytes from the table.
func (m *meter) read(size int, consistent bool) { m.units += readUnits(size, consistent) }

// readIndex counts a read of an index.
func (m *meter) readIndex(x *secondaryIndex, size int, consistent bool) {
	m.add(x, readUnits(size, consistent))
}

// write counts a write to the table and the writes to its indexes. The argument `size` is the size
// of the larger of the two images.
func (m *meter) write(size int, indexes []indexWrite) {
	m.units += writeUnits(size)
	for _, w := range indexes {
		m.add(w.index, w.units)
	}
}

func (m *meter) add(x *secondaryIndex, units float64) {
	to := &m.local
	if x.global {
		to = &m.global
	}
	if *to == nil {
		*to = map[string]float64{}
	}
	(*to)[x.name] += units
}

// readUnits returns the cost of a read: one unit for each started 4 KB. A read that is not
// consistent costs half of that.
func readUnits(size int, consistent bool) float64 {
	units := float64(max(1, (size+readUnit-1)/readUnit))
	if !consistent {
		units /= 2
	}
	return units
}

// writeUnits returns the cost of a write: one unit for each started KB, at least one.
func writeUnits(size int) float64 { return float64(max(1, (size+writeUnit-1)/writeUnit)) }

// appendJSON appends the ConsumedCapacity structure.
func (m *meter) appendJSON(dst []byte) []byte {
	total := m.units
	for _, arms := range []map[string]float64{m.global, m.local} {
		for _, units := range arms {
			total += units
		}
	}
	dst = append(dst, `{"TableName":`...)
	dst = attribute.AppendString(dst, m.table)
	dst = m.appendUnits(append(dst, ','), total)
	if m.returned == "INDEXES" {
		dst = m.appendUnits(append(dst, `,"Table":{`...), m.units)
		dst = append(dst, '}')
		dst = m.appendArms(dst, "GlobalSecondaryIndexes", m.global)
		dst = m.appendArms(dst, "LocalSecondaryIndexes", m.local)
	}
	return append(dst, '}')
}

func (m *meter) appendArms(dst []byte, name string, arms map[string]float64) []byte {
	if len(arms) == 0 {
		return dst
	}
	dst = append(attribute.AppendString(append(dst, ','), name), ":{"...)
	for i, index := range sortedKeys(arms) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(attribute.AppendString(dst, index), ":{"...)
		dst = append(m.appendUnits(dst, arms[index]), '}')
	}
	return append(dst, '}')
}

func (m *meter) appendUnits(dst []byte, units float64) []byte {
	dst = strconv.AppendFloat(append(dst, `"CapacityUnits":`...), units, 'f', -1, 64)
	if m.kind != "" {
		dst = append(append(append(dst, `,"`...), m.kind...), `CapacityUnits":`...)
		dst = strconv.AppendFloat(dst, units, 'f', -1, 64)
	}
	return dst
}

func sizeOf(it *stored) int {
	if it == nil {
		return 0
	}
	return it.size
}
