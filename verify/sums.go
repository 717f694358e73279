package verify

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"

	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

const (
	// Buckets is the number of buckets into which the rows of both sides are divided.
	Buckets = 1 << bucketBits

	bucketBits = 20
	// The rows of a part are scattered over all buckets. So a page is small, because larger pages
	// would be allocated for few rows each.
	pageBits = 3
	pageSize = 1 << pageBits
	// blockPages is how many pages are allocated together. The garbage collector looks at blocks
	// only.
	blockPages = 128
)

// total is a sum modulo 2^128, low word first (V4).
type total [2]uint64

func (t *total) add(o total) {
	var carry uint64
	t[0], carry = bits.Add64(t[0], o[0], 0)
	t[1], _ = bits.Add64(t[1], o[1], carry)
}

func (t *total) subtract(o total) {
	var borrow uint64
	t[0], borrow = bits.Sub64(t[0], o[0], 0)
	t[1], _ = bits.Sub64(t[1], o[1], borrow)
}

// bucket holds two sums: cells is over all cells and live items of its rows, and addresses is over
// the live items only.
type bucket struct{ cells, addresses total }

// Sums are the sums of rows by bucket. They take at most 33 MB, and less for few rows. The zero
// value is not usable; use NewSums. Only one task may use them at a time.
type Sums struct {
	key    [sha256.Size]byte
	index  [Buckets / pageSize]uint32 // the number of each page, from 1; 0 if all its buckets are empty
	pages  uint32
	blocks []*[blockPages][pageSize]bucket
	buf    []byte
}

// NewSums returns empty sums under the key of a run. All parts of a run use the same key.
func NewSums(key []byte) *Sums { return &Sums{key: sha256.Sum256(key)} }

func (s *Sums) at(n uint32) *bucket {
	page := &s.index[n>>pageBits]
	if *page == 0 {
		if s.pages%blockPages == 0 {
			s.blocks = append(s.blocks, new([blockPages][pageSize]bucket))
		}
		s.pages++
		*page = s.pages
	}
	return &s.page(*page)[n%pageSize]
}

func (s *Sums) page(number uint32) *[pageSize]bucket {
	return &s.blocks[(number-1)/blockPages][(number-1)%blockPages]
}

// Add adds the sums of o to s. If the target's sums are subtracted from the source's, all sums are
// zero for equal sides.
func (s *Sums) Add(o *Sums) {
	o.each(func(n uint32, b *bucket) { mine := s.at(n); mine.cells.add(b.cells); mine.addresses.add(b.addresses) })
}

// Subtract subtracts the sums of o from s.
func (s *Sums) Subtract(o *Sums) {
	o.each(func(n uint32, b *bucket) {
		mine := s.at(n)
		mine.cells.subtract(b.cells)
		mine.addresses.subtract(b.addresses)
	})
}

// each calls f for every bucket that is not empty, in their order.
func (s *Sums) each(f func(n uint32, b *bucket)) {
	for p, number := range s.index {
		if number == 0 {
			continue
		}
		page := s.page(number)
		for i := range page {
			if page[i] != (bucket{}) {
				f(uint32(p<<pageBits|i), &page[i])
			}
		}
	}
}

// Differing returns the buckets whose sums are not zero. The sums of one side must already be
// subtracted from the sums of the other. If `addresses` is true, it compares only the sums of
// addresses.
func (s *Sums) Differing(addresses bool) *Picked {
	p := &Picked{}
	s.each(func(n uint32, b *bucket) {
		if b.addresses != (total{}) || !addresses && b.cells != (total{}) {
			p.add(n)
		}
	})
	return p
}

// entryBytes is the size of a bucket in a piece: three bytes for its number, and the sums.
const entryBytes = 3 + 16 + 16

// Pieces returns the stored form of the sums, in pieces of at most the given number of bytes. It
// returns no piece if all sums are zero.
func (s *Sums) Pieces(most int) [][]byte {
	left := 0
	s.each(func(uint32, *bucket) { left++ })
	var pieces [][]byte
	s.each(func(n uint32, b *bucket) {
		last := len(pieces) - 1
		if last < 0 || len(pieces[last])+entryBytes > most {
			pieces, last = append(pieces, make([]byte, 0, min(left*entryBytes, most))), last+1
		}
		left--
		entry := append(pieces[last], byte(n>>16), byte(n>>8), byte(n))
		for _, word := range []uint64{b.cells[0], b.cells[1], b.addresses[0], b.addresses[1]} {
			entry = binary.BigEndian.AppendUint64(entry, word)
		}
		pieces[last] = entry
	})
	return pieces
}

// errPiece is returned for a piece that is not valid.
var errPiece = errors.New("not a piece of the sums of a verify")

// AddPiece adds one of the Pieces of other sums to s, or subtracts it.
func (s *Sums) AddPiece(piece []byte, subtract bool) error {
	if len(piece)%entryBytes != 0 {
		return errPiece
	}
	for entry := range slices.Chunk(piece, entryBytes) {
		n := uint32(entry[0])<<16 | uint32(entry[1])<<8 | uint32(entry[2])
		if n >= Buckets {
			return errPiece
		}
		word := func(i int) uint64 { return binary.BigEndian.Uint64(entry[3+8*i:]) }
		mine, cells, addresses := s.at(n), total{word(0), word(1)}, total{word(2), word(3)}
		if subtract {
			mine.cells.subtract(cells)
			mine.addresses.subtract(addresses)
		} else {
			mine.cells.add(cells)
			mine.addresses.add(addresses)
		}
	}
	return nil
}

// rowHash is the keyed hash of a row. The row's bucket and the hashes of its cells are derived from
// it.
type rowHash [sha256.Size]byte

func (h rowHash) bucket() uint32 { return binary.BigEndian.Uint32(h[:4]) >> (32 - bucketBits) }

func (s *Sums) row(table, row string) rowHash {
	s.buf = append(s.buf[:0], s.key[:]...)
	s.buf = appendText(appendText(s.buf, table), row)
	return sha256.Sum256(s.buf)
}

// cell returns the hash of one cell. The argument `rank` counts the cells of a column, from the
// newest.
func (s *Sums) cell(h rowHash, c *transform.Cell, rank int) total {
	s.buf = append(append(s.buf[:0], h[:]...), 'c')
	s.buf = appendText(appendText(s.buf, c.Family), c.Qualifier)
	s.buf = append(binary.AppendUvarint(s.buf, uint64(rank)), c.Value...)
	return truncated(sha256.Sum256(s.buf))
}

// address returns the hash of a live item in a row.
func (s *Sums) address(h rowHash, owner string) total {
	s.buf = append(append(append(s.buf[:0], h[:]...), 'a'), owner...)
	return truncated(sha256.Sum256(s.buf))
}

func truncated(h [sha256.Size]byte) total {
	return total{binary.BigEndian.Uint64(h[:8]), binary.BigEndian.Uint64(h[8:16])}
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// put adds an item's mutation of a row. If `addresses` is true, it leaves out the cells.
func (s *Sums) put(m *transform.RowMutation, addresses bool) {
	h := s.row(m.Table, m.Row)
	b := s.at(h.bucket())
	a := s.address(h, m.Owner)
	b.addresses.add(a)
	b.cells.add(a)
	if addresses {
		return
	}
	for i := range m.Cells {
		c := &m.Cells[i]
		rank := 0
		for j := range m.Cells { // few columns have more than one cell
			o := &m.Cells[j]
			if o.Timestamp > c.Timestamp && o.Family == c.Family && o.Qualifier == c.Qualifier {
				rank++
			}
		}
		if counted(c.Qualifier, rank, m.Keep) {
			b.cells.add(s.cell(h, c, rank))
		}
	}
}

// counted reports whether a cell is part of the sums. Cells that global tables write themselves are
// not counted (H61). If the mapping keeps older cells, they are not counted either.
func counted(qualifier string, rank int, keeps bool) bool {
	noise := len(qualifier) >= len(replicationPrefix) && qualifier[:len(replicationPrefix)] == replicationPrefix
	return !noise && (rank == 0 || !keeps)
}

// held adds a row of the target to the sums: its live owners, and its cells in managed families.
func (s *Sums) held(table string, row *sink.Row, owners []string, managed []string, keeps, addresses bool) {
	h := s.row(table, row.Key)
	b := s.at(h.bucket())
	for _, owner := range owners {
		a := s.address(h, owner)
		b.addresses.add(a)
		b.cells.add(a)
	}
	if addresses {
		return
	}
	rank := 0
	for i := range row.Cells {
		c := &row.Cells[i]
		if i > 0 && row.Cells[i-1].Family == c.Family && row.Cells[i-1].Qualifier == c.Qualifier {
			rank++
		} else {
			rank = 0
		}
		if slices.Contains(managed, c.Family) && counted(c.Qualifier, rank, keeps) {
			b.cells.add(s.cell(h, c, rank))
		}
	}
}

// Picked is a set of buckets.
type Picked struct {
	bits [Buckets / 64]uint64
	n    int
}

func (p *Picked) add(n uint32) {
	if p.bits[n/64]&(1<<(n%64)) == 0 {
		p.n++
	}
	p.bits[n/64] |= 1 << (n % 64)
}

func (p *Picked) has(n uint32) bool { return p.bits[n/64]&(1<<(n%64)) != 0 }

// Len returns the number of buckets in the set.
func (p *Picked) Len() int { return p.n }

// MarshalBinary returns the stored form of the set: three bytes per bucket if there are few,
// otherwise one bit for each possible bucket.
func (p *Picked) MarshalBinary() ([]byte, error) {
	if p.n*3 >= Buckets/8 {
		data := make([]byte, 0, Buckets/8)
		for _, word := range p.bits {
			data = binary.BigEndian.AppendUint64(data, word)
		}
		return data, nil
	}
	data := make([]byte, 0, 3*p.n)
	for n := range uint32(Buckets) {
		if p.has(n) {
			data = append(data, byte(n>>16), byte(n>>8), byte(n))
		}
	}
	return data, nil
}

// UnmarshalBinary reads the form that MarshalBinary writes.
func (p *Picked) UnmarshalBinary(data []byte) error {
	*p = Picked{}
	if len(data) == Buckets/8 {
		for i := range p.bits {
			p.bits[i] = binary.BigEndian.Uint64(data[8*i:])
			p.n += bits.OnesCount64(p.bits[i])
		}
		return nil
	}
	if len(data)%3 != 0 {
		return errPiece
	}
	for entry := range slices.Chunk(data, 3) {
		n := uint32(entry[0])<<16 | uint32(entry[1])<<8 | uint32(entry[2])
		if n >= Buckets {
			return errPiece
		}
		p.add(n)
	}
	return nil
}
