package checkpoint

import (
	"context"
	"fmt"
)

// partBlock is how many part rows one read returns. Their keys share a prefix: the part's number
// without its last two digits.
const partBlock = 100

// doneParts holds rows of a phase that need not be read again. Every worker reads the parts every
// two seconds, and a part that is done stays done while its phase has rows.
type doneParts struct {
	prefix string
	total  int           // parts of the phase
	blocks map[int][]Row // blocks whose parts are all done
}

// phaseRows returns the rows of a phase in key order. It does not read blocks that are known to be
// done.
func (l *Ledger) phaseRows(ctx context.Context, set, prefix string) ([]Row, error) {
	l.mu.Lock()
	known := l.done[set]
	l.mu.Unlock()
	if known.prefix != prefix || len(known.blocks) == 0 {
		return l.store.Read(ctx, prefix)
	}
	var all []Row
	for block := range (known.total + partBlock - 1) / partBlock {
		rows, done := known.blocks[block]
		if !done {
			var err error
			if rows, err = l.store.Read(ctx, fmt.Sprintf("%s%05d", prefix, block)); err != nil {
				return nil, err
			}
		}
		all = append(all, rows...)
	}
	return all, nil
}

// rememberDone remembers the blocks of a phase in which every part has a row, is done and has the
// same Total. Remembered rows are never changed in place.
func (l *Ledger) rememberDone(set, prefix string, parts []Part, rows []Row) {
	done := doneParts{prefix: prefix, blocks: map[int][]Row{}}
	for from := 0; from < len(parts); {
		first := parts[from]
		block := first.Index / partBlock
		to := from
		for to < len(parts) && parts[to].Index/partBlock == block && parts[to].State == PartDone && parts[to].Total == first.Total {
			to++
		}
		if n := min(partBlock, first.Total-block*partBlock); to-from == n && first.Index == block*partBlock {
			done.blocks[block] = rows[from:to:to]
			done.total = first.Total
		}
		for from = max(to, from+1); from < len(parts) && parts[from].Index/partBlock == block; from++ {
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done[set] = done
}
