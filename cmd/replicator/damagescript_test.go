package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/bigtable"
	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// damaged records what a script did to a target table without the program's knowledge.
type damaged struct {
	before map[string]bigtable.Row
	how    map[string]string // by row
}

type damageKey struct{}

// busyKey is the prefix of the keys that busy writes.
const busyKey = "busy"

// damages are the ways in which another program damages a live row of fill, or a tombstone.
var damages = []struct {
	name string
	gone bool
	does func(m *bigtable.Mutation, row bigtable.Row)
}{
	{"row removed", false, func(m *bigtable.Mutation, _ bigtable.Row) { m.DeleteRow() }},
	{"cell changed", false, func(m *bigtable.Mutation, _ bigtable.Row) {
		m.DeleteCellsInColumn("d", "size")
		m.Set("d", "size", bigtable.Now(), []byte("6"))
	}},
	{"cell added", false, func(m *bigtable.Mutation, _ bigtable.Row) { m.Set("d", "stranger", bigtable.Now(), []byte("1")) }},
	{"cell removed", false, func(m *bigtable.Mutation, _ bigtable.Row) { m.DeleteCellsInColumn("d", "size") }},
	{"version missing", false, func(m *bigtable.Mutation, _ bigtable.Row) { m.DeleteCellsInFamily(sink.LiveFamily) }},
	{"family emptied", false, func(m *bigtable.Mutation, _ bigtable.Row) { m.DeleteCellsInFamily("d") }},
	{"resurrected", true, func(m *bigtable.Mutation, row bigtable.Row) {
		tombstone := transform.Version(row[sink.GoneFamily][0].Value)
		old := fmt.Sprintf("%08d.%06d.%040d.0001", tombstone.Generation(), transform.LoadHop, 1)
		m.DeleteCellsInFamily(sink.GoneFamily)
		m.Set(sink.LiveFamily, sink.VersionColumn, 0, []byte(old))
		m.Set("d", "size", bigtable.Now(), []byte("5"))
	}},
	{"version and tombstone missing", true, func(m *bigtable.Mutation, _ bigtable.Row) {
		m.DeleteRow()
	}},
}

// harmless lists damages after which the row is still correct.
var harmless = []string{"version and tombstone missing"}

// damage TABLE SEED damages each row with a probability of one half, in one of the ways above, and
// adds rows.
func damage(ts *testscript.TestScript, _ bool, args []string) {
	seed, err := strconv.ParseUint(args[1], 10, 64)
	ts.Check(err)
	random := rand.New(rand.NewPCG(seed, 1))
	table, done := openTable(ts, args[0])
	defer done()
	d := &damaged{before: rowsOf(ts, table), how: map[string]string{}}
	*ts.Value(damageKey{}).(**damaged) = d
	keys := make([]string, 0, len(d.before))
	for key := range d.before {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	turn := map[bool]int{}
	for _, key := range keys {
		row := d.before[key]
		gone := len(row[sink.GoneFamily]) > 0
		if random.IntN(2) == 0 {
			continue
		}
		for turn[gone]++; damages[turn[gone]%len(damages)].gone != gone; turn[gone]++ {
		}
		how := damages[turn[gone]%len(damages)]
		m := bigtable.NewMutation()
		how.does(m, row)
		ts.Check(table.Apply(context.Background(), key, m))
		d.how[key] = how.name
	}
	for i := range 3 {
		key := fmt.Sprintf("q%03d#1", i)
		m := bigtable.NewMutation()
		m.Set("d", "size", bigtable.Now(), []byte("5"))
		ts.Check(table.Apply(context.Background(), key, m))
		d.how[key] = "row added"
	}
	counts := map[string]int{}
	for _, how := range d.how {
		counts[how]++
	}
	found := len(d.how)
	for _, how := range harmless {
		found -= counts[how]
	}
	ts.Setenv("DAMAGED", strconv.Itoa(found))
	for _, how := range append(damages, damages[0]) {
		if counts[how.name] == 0 {
			ts.Fatalf("the seed gives no row that is %q: give another one", how.name)
		}
	}
}

// mended TABLE fails unless every damaged row holds its item again, or nothing if the item was
// removed, and every other row is unchanged.
func mended(ts *testscript.TestScript, _ bool, args []string) {
	table, done := openTable(ts, args[0])
	defer done()
	d := *ts.Value(damageKey{}).(**damaged)
	now := rowsOf(ts, table)
	data := func(r bigtable.Row) string {
		var cells []string
		for _, c := range r["d"] {
			cells = append(cells, c.Column+"="+string(c.Value))
		}
		return strings.Join(cells, " ")
	}
	for key, row := range d.before {
		how := d.how[key]
		switch {
		case how == "" && !reflect.DeepEqual(row, now[key]):
			ts.Fatalf("row %s was as it should be, and was touched:\n%v\n%v", key, row, now[key])
		case how != "" && data(row) != data(now[key]):
			ts.Fatalf("row %s, %s, holds %s and should hold %s", key, how, data(now[key]), data(row))
		case how != "" && len(row[sink.LiveFamily]) > 0 && len(now[key][sink.LiveFamily]) == 0:
			ts.Fatalf("row %s, %s, has no version", key, how)
		}
	}
	for key, how := range d.how {
		if how == "row added" && (data(now[key]) != "" || len(now[key][sink.GoneFamily]) == 0) {
			ts.Fatalf("row %s, which was added, is still there: %v", key, now[key])
		}
	}
}

// busy TABLE puts, changes and deletes items until the script ends.
func busy(ts *testscript.TestScript, _ bool, args []string) {
	services := servicesOf(ts)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		key := func(n int) map[string]any {
			return map[string]any{"pk": map[string]string{"S": fmt.Sprintf("%s%d", busyKey, n%20)}, "sk": map[string]string{"S": "1"}}
		}
		for n := 0; ctx.Err() == nil; n++ {
			item := key(n)
			item["n"] = map[string]string{"N": strconv.Itoa(n)}
			err := services.call("PutItem", map[string]any{"TableName": args[0], "Item": item})
			if err == nil && n%3 == 0 {
				err = services.call("DeleteItem", map[string]any{"TableName": args[0], "Key": key(n * 7)})
			}
			if err != nil {
				return // the services have stopped
			}
			time.Sleep(5 * time.Millisecond) // a load, not a race
		}
	})
	ts.Defer(func() { stop(); running.Wait() })
}

// rowsOf reads all rows except witnesses and the rows of busy.
func rowsOf(ts *testscript.TestScript, table *bigtable.Table) map[string]bigtable.Row {
	rows := map[string]bigtable.Row{}
	ts.Check(table.ReadRows(context.Background(), bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
		if !strings.HasPrefix(r.Key(), busyKey) && !strings.HasPrefix(r.Key(), transform.WitnessPrefix) {
			rows[r.Key()] = r
		}
		return true
	}))
	return rows
}

func openTable(ts *testscript.TestScript, name string) (*bigtable.Table, func()) {
	conn, err := grpc.NewClient("passthrough:///"+servicesOf(ts).bigtable, grpc.WithTransportCredentials(insecure.NewCredentials()))
	ts.Check(err)
	client, err := bigtable.NewClient(context.Background(), "p", "i", option.WithGRPCConn(conn))
	ts.Check(err)
	return client.Open(name), func() { _ = conn.Close() }
}
