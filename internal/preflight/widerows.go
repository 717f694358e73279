package preflight

// This file estimates the sizes of rows that many items share. A sample is spread evenly over the
// partitions of a table. If there are only few shared rows, the sample contains all of them. Then
// the average size is the table's size divided by the number of rows. If there are many rows, a
// sample does not show the largest.

const (
	// wideRow is the maximum row size that Google recommends. The limit is 256 MB. Sources:
	// https://cloud.google.com/bigtable/quotas#limits-data-size and
	// https://cloud.google.com/bigtable/docs/schema-design#row-size
	wideRow = 100_000_000
	// fewRows is the maximum number of rows for which a sample is assumed to contain all rows.
	// seenEach is how often the sample must contain each row on average for this assumption.
	fewRows  = 50
	seenEach = 5
)

// Sharing returns the number of items in the sample that belong to a shared row.
func (s *Sampled) Sharing() int {
	n := 0
	for _, items := range s.shared {
		n += items
	}
	return n
}

// Wide returns the number of rows that the items of a table share, and the average size of such a
// row in bytes. It returns 0 rows if that size is not too large. The argument `bytes` is the
// table's size.
func (s *Sampled) Wide(bytes int64) (rows int, each int64) {
	rows = len(s.shared)
	if rows == 0 || rows > fewRows || s.Sharing() < seenEach*rows {
		return 0, 0
	}
	each = int64(float64(bytes) * float64(min(s.Sharing(), len(s.Items))) / float64(len(s.Items)) / float64(rows))
	if each < wideRow {
		return 0, 0
	}
	return rows, each
}
