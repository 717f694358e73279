package preflight

// Rows that many items share, and their sizes. A sample is spread evenly over the partitions of a
// table. If there are few shared rows, it contains all of them, and the table's bytes are spread
// over just those. If there are many rows, a sample does not show the widest.

const (
	// wideRow is the row size that Google recommends as a maximum; 256 MB is the limit. Source:
	// https://cloud.google.com/bigtable/quotas#limits-data-size and
	// https://cloud.google.com/bigtable/docs/schema-design#row-size
	wideRow = 100_000_000
	// fewRows is the number of rows up to which a sample is assumed to contain all rows, and
	// seenEach how often it must then contain each on average.
	fewRows  = 50
	seenEach = 5
)

// Sharing returns how many items of the sample belong to a shared row.
func (s *Sampled) Sharing() int {
	n := 0
	for _, items := range s.shared {
		n += items
	}
	return n
}

// Wide returns how many rows the items of a table share, and the average size of a row in bytes. It
// returns 0 rows unless that size is too large. Bytes is the table's size.
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
