package checkpoint

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// The columns of a stored row. Both cells have the constant timestamp 0, so that a worker with a
// fast clock cannot hide later writes of others (H43).
const (
	counterColumn = "c"
	recordColumn  = "r"
)

// callTime bounds one call. The client retries a read of an unresponsive instance until its context
// ends. Without the bound a loop would block in one call during a whole outage and could report
// nothing.
const callTime = 20 * time.Second

type bigtableStore struct {
	table  *bigtable.Table
	family string
	gather gatherer
}

// Bigtable returns a store in one family of a table. The family should keep one version of a cell
// and have no age rule. The app profile must use single-cluster routing and allow single-row
// transactions.
func Bigtable(table *bigtable.Table, family string) Store {
	return &bigtableStore{table: table, family: family}
}

// bounded makes a call that ends within callTime. It adds the cause to the client's error, which
// does not mention the timeout.
func bounded(ctx context.Context, op string, call func(ctx context.Context) error) error {
	limited, cancel := task.WithTimeout(ctx, callTime)
	defer cancel()
	var err error
	task.Call(limited, func() { err = call(limited) })
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("no answer within %s: %w: %w", callTime, context.Cause(limited), err)
	}
	if err != nil {
		return fmt.Errorf("%s of the ledger: %w", op, err)
	}
	return nil
}

func (s *bigtableStore) Read(ctx context.Context, prefix string) (rows []Row, err error) {
	return s.ask(ctx, asked{key: prefix})
}

// ReadRow implements rowReader.
func (s *bigtableStore) ReadRow(ctx context.Context, key string) ([]Row, error) {
	return s.ask(ctx, asked{key, true})
}

// NextKey implements keyFinder. It reads no value, and one cell.
func (s *bigtableStore) NextKey(ctx context.Context, from string) (key string, found bool, err error) {
	filter := bigtable.ChainFilters(bigtable.CellsPerRowLimitFilter(1), bigtable.StripValueFilter())
	err = bounded(ctx, "ReadRows", func(ctx context.Context) error {
		found = false
		return s.table.ReadRows(ctx, bigtable.InfiniteRange(from), func(r bigtable.Row) bool {
			key, found = r.Key(), true
			return false
		}, bigtable.LimitRows(1), bigtable.RowFilter(filter))
	})
	return key, found, err
}

func (s *bigtableStore) ask(ctx context.Context, a asked) ([]Row, error) {
	if ctx.Value(patientKey{}) != nil {
		return s.gather.read(ctx, a, s.all)
	}
	return s.all(ctx, []asked{a})
}

// all returns the rows of several reads, by key.
func (s *bigtableStore) all(ctx context.Context, reads []asked) (rows []Row, err error) {
	var ranges bigtable.RowRangeList
	for _, a := range reads {
		if a.exact {
			ranges = append(ranges, bigtable.NewRange(a.key, a.key+"\x00"))
		} else {
			ranges = append(ranges, bigtable.PrefixRange(a.key))
		}
	}
	err = bounded(ctx, "ReadRows", func(ctx context.Context) error {
		rows, err = s.read(ctx, ranges)
		return err
	})
	return rows, err
}

func (s *bigtableStore) read(ctx context.Context, ranges bigtable.RowSet) ([]Row, error) {
	var rows []Row
	var malformed error
	filter := bigtable.ChainFilters(bigtable.FamilyFilter(s.family), bigtable.LatestNFilter(1))
	err := s.table.ReadRows(ctx, ranges, func(r bigtable.Row) bool {
		row := Row{Key: r.Key()}
		for _, item := range r[s.family] {
			switch item.Column {
			case s.family + ":" + counterColumn:
				row.Counter, malformed = strconv.ParseUint(string(item.Value), 10, 64)
			case s.family + ":" + recordColumn:
				row.Data = item.Value
			}
		}
		if malformed == nil && (row.Counter == 0) != (row.Data == nil) {
			malformed = fmt.Errorf("ledger row %q has a counter without a record, or the reverse", row.Key)
		}
		if row.Counter > 0 {
			rows = append(rows, row)
		}
		return malformed == nil
	}, bigtable.RowFilter(filter))
	if err == nil {
		err = malformed
	}
	return rows, err
}

func (s *bigtableStore) Swap(ctx context.Context, key string, was, next uint64, data []byte) (bool, error) {
	change := bigtable.NewMutation()
	if data == nil {
		change.DeleteCellsInFamily(s.family)
	} else {
		change.Set(s.family, counterColumn, 0, []byte(strconv.FormatUint(next, 10)))
		change.Set(s.family, recordColumn, 0, data)
	}
	column := []bigtable.Filter{bigtable.FamilyFilter(s.family), bigtable.ColumnFilter(counterColumn)}
	var conditional *bigtable.Mutation
	if was == 0 {
		conditional = bigtable.NewCondMutation(bigtable.ChainFilters(column...), nil, change)
	} else {
		// The range includes its start and excludes its end, so it holds only this value.
		text := []byte(strconv.FormatUint(was, 10))
		exact := bigtable.ValueRangeFilter(text, append(text[:len(text):len(text)], 0))
		conditional = bigtable.NewCondMutation(bigtable.ChainFilters(append(column, exact)...), change, nil)
	}
	var matched bool
	err := bounded(ctx, "CheckAndMutateRow", func(ctx context.Context) error {
		return s.table.Apply(ctx, key, conditional, bigtable.GetCondMutationResult(&matched))
	})
	if err != nil {
		return false, err
	}
	return matched == (was > 0), nil
}
