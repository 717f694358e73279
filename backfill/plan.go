package backfill

const (
	partBytes = 64 << 20 // about what a part reads: moments of work, so that little is repeated by who takes it over
	smallest  = 1_000_000
	mostParts = 1024
)

// PartsOf is into how many parts a load divides a table of so many bytes, as DynamoDB counts them, that the configuration wants
// read in so many segments at once.
func PartsOf(bytes int64, segments int) int {
	segments = max(segments, 1)
	if bytes < smallest {
		return min(segments, 4)
	}
	parts := (bytes + partBytes - 1) / partBytes
	return int(min(max(parts, int64(min(4*segments, mostParts))), mostParts))
}
