package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"cloud.google.com/go/bigtable"
)

// family is the column family of the default mapping, and column is the attribute that changes.
const (
	family = "d"
	column = "n"
)

func groups() int {
	if *alone || *turns {
		return *tables
	}
	return 1
}

// writeOne writes or deletes an item where the application finds its table now, and remembers it.
// The caller holds the lock.
func (s *site) writeOne(t int, key string, n int) (err error) {
	deletes := n%7 == 0
	if s.moved[groupOf(t)] {
		m := bigtable.NewMutation()
		if deletes {
			m.DeleteRow()
		} else {
			m.DeleteCellsInColumn(family, column)
			m.Set(family, column, bigtable.Now().TruncateToMilliseconds(), []byte(strconv.Itoa(n)))
		}
		err = s.target.Open(name(t)).Apply(context.Background(), key, m)
	} else if deletes {
		err = s.call("DeleteItem", fmt.Sprintf(`{"TableName":%q,"Key":{"pk":{"S":%q}}}`, name(t), key))
	} else {
		err = s.call("PutItem", fmt.Sprintf(`{"TableName":%q,"Item":{"pk":{"S":%q},"n":{"N":"%d"}}}`, name(t), key, n))
	}
	if deletes {
		delete(s.memory[t], key)
	} else {
		s.memory[t][key] = n
	}
	return err
}

// compare returns how many rows differ from what the application remembers, without a verify.
func (s *site) compare(ctx context.Context) (different, rows int, err error) {
	for t, memory := range s.memory {
		found := map[string]int{}
		err := s.target.Open(name(t)).ReadRows(ctx, bigtable.InfiniteRange(""), func(row bigtable.Row) bool {
			for _, cell := range row[family] {
				if cell.Column != family+":"+column {
					continue
				}
				value, err := strconv.Atoi(string(cell.Value))
				if err != nil {
					value = -1 // equals nothing that was written
				}
				found[row.Key()] = value
			}
			return true
		}, bigtable.RowFilter(bigtable.LatestNFilter(1)))
		if err != nil {
			return 0, 0, err
		}
		rows += len(memory)
		for key, want := range memory {
			if value, ok := found[key]; !ok || value != want {
				different++
				fmt.Printf("  %s, row %s: %d instead of %d\n", name(t), key, value, want)
			}
		}
		for key := range found {
			if _, ok := memory[key]; !ok {
				different++
				fmt.Printf("  %s, row %s: the item was deleted\n", name(t), key)
			}
		}
	}
	return different, rows, nil
}

// moments are when cancelAttempts cancels: so long after the request, or after the freeze.
var moments = []struct {
	frozen bool
	after  time.Duration
}{{false, 0}, {false, 500 * time.Millisecond}, {true, 0}, {true, 300 * time.Millisecond}, {true, 600 * time.Millisecond}, {true, 900 * time.Millisecond}}

// cancelAttempts begins attempts that should end without a switch: two hooks refuse once, and
// cutover cancel comes at each of the moments. It ends early when a cancel came after the switch.
func (s *site) cancelAttempts(run func(...string) error, status func() ([]byte, error), start []string) error {
	for _, name := range []string{"freeze_writes", "switch"} {
		s.mu.Lock()
		s.refuse = name
		s.mu.Unlock()
		if err := run(start...); err == nil {
			return fmt.Errorf("%s was refused, and the cutover has switched", name)
		}
		fmt.Printf("  hook %s refused: not switched\n", name)
	}
	for _, m := range moments {
		s.mu.Lock()
		clear(s.since)
		s.mu.Unlock()
		if err := run(append(start, "--wait=false")...); err != nil {
			return err
		}
		for i := 0; m.frozen && i < 6000 && !s.isFrozen(); i++ {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(m.after)
		err := run("cutover", "cancel", "--reason", "drive")
		out, failed := status()
		if failed != nil {
			return failed
		}
		fmt.Printf("  cancel %s after %s, in step %s: %s\n", m.after, map[bool]string{false: "the request", true: "the freeze"}[m.frozen], lastStep(out),
			map[bool]string{true: "cancelled", false: "refused"}[err == nil])
		if s.switched() {
			return nil
		}
	}
	return nil
}

func (s *site) isFrozen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.since) > 0
}

func (s *site) switched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.moved) == groups()
}

// lastStep is the last step that the first group reached before it was cancelled.
func lastStep(status []byte) string {
	var d struct {
		Timeline []struct {
			Step string `json:"step"`
		} `json:"timeline"`
	}
	if err := json.NewDecoder(bytes.NewReader(status)).Decode(&d); err != nil {
		return err.Error()
	}
	last := "none"
	for _, e := range d.Timeline {
		if e.Step != "cancelling" && e.Step != "cancelled" {
			last = e.Step
		}
	}
	return last
}
