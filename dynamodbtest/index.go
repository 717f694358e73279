package dynamodbtest

import (
	"slices"
	"strings"
)

// stored is a stored item. It never changes, so records, pages and the table can share it.
type stored struct {
	wire []byte // canonical JSON of the attribute map
	size int    // bytes, as DynamoDB counts them
}

// entry is an item with the key under which an index holds it.
type entry struct {
	key  string
	item *stored
}

// index keeps the items of a table in the order of their keys, in sorted chunks of bounded length.
// An insertion moves at most the entries of one chunk. It moves the list of chunks only once in
// maxChunk/2 insertions. That is fast enough for millions of items.
type index struct {
	chunks [][]entry
	count  int
	bytes  int // the sum of the items' sizes
}

const maxChunk = 512

// chunkFor returns the chunk that contains the key or would contain it.
func (x *index) chunkFor(key string) int {
	i, found := slices.BinarySearchFunc(x.chunks, key, func(c []entry, key string) int {
		return strings.Compare(c[0].key, key)
	})
	if !found && i > 0 {
		i--
	}
	return i
}

func searchChunk(chunk []entry, key string) (int, bool) {
	return slices.BinarySearchFunc(chunk, key, func(e entry, key string) int {
		return strings.Compare(e.key, key)
	})
}

func (x *index) get(key string) *stored {
	if len(x.chunks) == 0 {
		return nil
	}
	chunk := x.chunks[x.chunkFor(key)]
	if i, found := searchChunk(chunk, key); found {
		return chunk[i].item
	}
	return nil
}

// set stores the item. It returns the item that it replaced, or nil if there was none.
func (x *index) set(key string, it *stored) *stored {
	x.bytes += it.size
	if len(x.chunks) == 0 {
		x.chunks = [][]entry{{{key, it}}}
		x.count++
		return nil
	}
	c := x.chunkFor(key)
	chunk := x.chunks[c]
	i, found := searchChunk(chunk, key)
	if found {
		old := chunk[i].item
		chunk[i].item = it
		x.bytes -= old.size
		return old
	}
	x.count++
	chunk = slices.Insert(chunk, i, entry{key, it})
	x.chunks[c] = chunk
	if len(chunk) > maxChunk {
		half := len(chunk) / 2
		right := slices.Clone(chunk[half:])
		clear(chunk[half:])
		x.chunks[c] = chunk[:half]
		x.chunks = slices.Insert(x.chunks, c+1, right)
	}
	return nil
}

// delete removes the item and returns it, or nil if there was none.
func (x *index) delete(key string) *stored {
	if len(x.chunks) == 0 {
		return nil
	}
	c := x.chunkFor(key)
	i, found := searchChunk(x.chunks[c], key)
	if !found {
		return nil
	}
	old := x.chunks[c][i].item
	x.chunks[c] = slices.Delete(x.chunks[c], i, i+1)
	if len(x.chunks[c]) == 0 {
		x.chunks = slices.Delete(x.chunks, c, c+1)
	}
	x.count--
	x.bytes -= old.size
	return old
}

// ascend calls `visit` for the entries from the key `from` on, in order, until `visit` returns
// false. If `after` is set, it begins after that key.
func (x *index) ascend(from string, after bool, visit func(entry) bool) {
	if len(x.chunks) == 0 {
		return
	}
	c := x.chunkFor(from)
	i, found := searchChunk(x.chunks[c], from)
	if found && after {
		i++
	}
	for ; c < len(x.chunks); c, i = c+1, 0 {
		for ; i < len(x.chunks[c]); i++ {
			if !visit(x.chunks[c][i]) {
				return
			}
		}
	}
}
