package model

import "github.com/dynamodb-bigtable/replicator/attribute"

// Taking returns the open shard that takes changes of an item.
func (s *Stream) Taking(key attribute.Item) *Shard {
	hash := s.hash(key)
	for _, sh := range s.Open() {
		if sh.lo <= hash && hash < sh.hi {
			return sh
		}
	}
	panic("sim: no shard takes the item")
}

// Isolate splits the shard that takes an item until one takes almost nothing else, as the service
// does with a hot item.
func (s *Stream) Isolate(key attribute.Item) {
	hash := s.hash(key)
	for _, at := range []uint64{hash, hash + 1} {
		if sh := s.Taking(key); sh.lo < at && at < sh.hi {
			s.split(sh, at)
		}
	}
}

func (s *Stream) hash(key attribute.Item) uint64 {
	_, id := s.table.KeyOf(key)
	return hashOf(id)
}
