package preflight

// The rows that many items share, and how wide they grow. A sample is even over the partitions of a table: it sees all shared rows if they
// are few, and then the table's bytes are spread over just those. Of many rows it cannot tell the widest.

const (
	// wideRow is what Google recommends a row to stay below; 256 MB is the limit.
	// Source: https://cloud.google.com/bigtable/quotas#limits-data-size and https://cloud.google.com/bigtable/docs/schema-design#row-size
	wideRow = 100_000_000
	// fewRows is up to how many rows a sample is taken to show all, and seenEach how often each must then have been seen on average.
	fewRows  = 50
	seenEach = 5
)

// Sharing is how many items of the sample have a place in a shared row.
func (s *Sampled) Sharing() int {
	n := 0
	for _, items := range s.shared {
		n += items
	}
	return n
}

// Wide is how many rows the items of a table share, and how many bytes each has on average, where that is too much; 0 rows otherwise. Bytes
// is the table's size.
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
