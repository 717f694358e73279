package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// backlog is a source of shards with many pages of one change each. It counts the pages that it
// returned of each shard, and remembers the last change.
type backlog struct {
	cdc.Source
	pages int
	given map[string]int
	last  map[string]int
}

func newBacklog(pages int) *backlog {
	return &backlog{pages: pages, given: map[string]int{}, last: map[string]int{}}
}

func (b *backlog) Seek(_ context.Context, shard string, from cdc.Position) (cdc.Iterator, error) {
	after := from.After.String()
	if from.AtHorizon() {
		after = "0"
	}
	return cdc.Iterator(shard + "|" + after), nil
}

func (b *backlog) Read(ctx context.Context, at cdc.Iterator) (cdc.Page, error) {
	shard, after, _ := strings.Cut(string(at), "|")
	n, err := strconv.Atoi(after)
	if err != nil {
		return cdc.Page{}, err
	}
	if err := task.Sleep(ctx, 10*time.Millisecond); err != nil || n == b.pages {
		return cdc.Page{Next: at}, err
	}
	b.given[shard]++
	b.last[shard] = n + 1
	item := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(shard)}})
	return cdc.Page{Next: cdc.Iterator(fmt.Sprintf("%s|%d", shard, n+1)), Changes: []cdc.Change{
		{Event: cdc.Insert, Sequence: cdc.SequenceOf(uint64(n + 1)), Time: task.Now(ctx), Keys: item, New: item}}}, nil
}

// total returns how many pages were returned of the shards with a prefix.
func (b *backlog) total(prefix string) (n int) {
	for shard, given := range b.given {
		if strings.HasPrefix(shard, prefix) {
			n += given
		}
	}
	return n
}

// crowd returns the options of a worker that reads the tables, each into a target table of its name
// in lower case, with slots for two pages.
func crowd(t *testing.T, source *backlog, target enginetest.Targets, tables ...string) engine.Options {
	t.Helper()
	return engine.Options{
		Database: &silentDatabases{asked: map[string]bool{}},
		Writer:   sink.NewWriter(sink.Options{Table: target, InFlight: 16}),
		Open:     func(string) cdc.Source { return source },
		Witness:  func(string) checkpoint.Store { return &checkpointtest.Memory{} },
		Pages:    2,
		Tables:   enginetest.Specs(t, tables...),
	}
}

// A worker with many shards holds only as many pages as there are slots while the target does not
// answer. When it answers, all continue.
func TestPagesInHandAreBounded(t *testing.T) {
	const shards, pages = 20, 5
	source := newBacklog(pages)
	play(t, &checkpointtest.Memory{}, 4*time.Second, crowd(t, source, enginetest.Targets{Answered: time.Hour}, "Orders"), enginetest.Behind(shards, "Orders"))
	if n := source.total(""); n != 2 {
		t.Errorf("%d pages are held with two places", n)
	}
	source = newBacklog(pages)
	play(t, &checkpointtest.Memory{}, 2*time.Minute, crowd(t, source, enginetest.Targets{Answered: time.Minute}, "Orders"), enginetest.Behind(shards, "Orders"))
	for n := range shards {
		if given := source.given[fmt.Sprint("Orders", n)]; given < pages {
			t.Errorf("shard %d gave %d pages of %d", n, given, pages)
		}
	}
}

// A page that cannot be written releases its slot to pages that can: a missing target table does
// not stop other tables.
func TestAMissingTargetLeavesRoom(t *testing.T) {
	const shards, pages = 4, 5
	source := newBacklog(pages)
	o := crowd(t, source, enginetest.Targets{Missing: "orders"}, "Orders", "Users")
	play(t, &checkpointtest.Memory{}, 10*time.Minute, o, enginetest.Behind(shards, "Orders", "Users"))
	if n := source.total("Users"); n != shards*pages {
		t.Errorf("%d pages were given of the table that can be written, of %d", n, shards*pages)
	}
	for n := range shards {
		if last := source.last[fmt.Sprint("Orders", n)]; last > 1 {
			t.Errorf("shard %d was read up to change %d, and none can be written", n, last)
		}
	}
	if n := source.total("Orders"); n == 0 || n > 2*int(10*time.Minute/engine.Patience) {
		t.Errorf("%d pages were given of the table that cannot", n)
	}
}

// A page that releases its slot and is read again is no progress. Readiness relies on that.
func TestAPageThatIsPutBackIsNoProgress(t *testing.T) {
	read, done := map[string]int{}, map[string]int{}
	o := crowd(t, newBacklog(5), enginetest.Targets{Missing: "orders"}, "Orders", "Users")
	o.Events.PageRead = func(table string, _ engine.Tally) { read[table]++ }
	o.Events.PageDone = func(table string) { done[table]++ }
	play(t, &checkpointtest.Memory{}, 10*time.Minute, o, enginetest.Behind(4, "Orders", "Users"))
	if read["Orders"] < 20 || done["Orders"] > 0 || done["Users"] == 0 || done["Users"] > read["Users"] {
		t.Errorf("pages read %v, done %v", read, done)
	}
}

// silentDatabases is a silentDatabase for each table.
type silentDatabases struct {
	engine.Database
	asked map[string]bool
}

func (d *silentDatabases) Describe(ctx context.Context, table string) (backfill.Description, error) {
	asked := d.asked[table]
	d.asked[table] = true
	return (&silentDatabase{asked: asked}).Describe(ctx, table)
}

// quiet is a backlog in which the shards of one table have no more changes, or do not answer.
type quiet struct {
	*backlog
	failure error // nil: they have no more changes
}

func (q quiet) Read(ctx context.Context, at cdc.Iterator) (cdc.Page, error) {
	if !strings.HasPrefix(string(at), "Orders") {
		return q.backlog.Read(ctx, at)
	}
	return cdc.Page{Next: at}, errors.Join(task.Sleep(ctx, 10*time.Millisecond), q.failure)
}

// A shard that is caught up or cannot be read holds no slot: otherwise others would wait for the
// slot forever.
func TestWhatHasNoPageHoldsNoPlace(t *testing.T) {
	const shards, pages = 4, 5
	for name, failure := range map[string]error{
		"caught up": nil, "unanswered": &cdc.Error{Op: "GetRecords", Reason: cdc.Malformed, Err: errors.New("no")},
	} {
		source := newBacklog(pages)
		o := crowd(t, source, enginetest.Targets{}, "Orders", "Users")
		o.Open = func(string) cdc.Source { return quiet{source, failure} }
		play(t, &checkpointtest.Memory{}, 2*time.Minute, o, enginetest.Behind(shards, "Orders", "Users"))
		if n := source.total("Users"); n != shards*pages {
			t.Errorf("beside what is %s, %d pages were given of %d", name, n, shards*pages)
		}
	}
}
