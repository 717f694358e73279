package scale

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Read returns rows of the ledger. The rows of shards are a function of time.
func (p *cutoverPlay) Read(ctx context.Context, prefix string) ([]checkpoint.Row, error) {
	if err := task.Sleep(ctx, p.ledgerRead()); err != nil {
		return nil, err
	}
	var rows []checkpoint.Row
	size := 0
	if of, shards := strings.CutPrefix(prefix, "p/shard/"); shards {
		source, _, _ := strings.Cut(of, "/")
		for _, v := range p.streams[source].rows(p.world.Now()) {
			if key := "p/shard/" + source + "/l/" + v.id; strings.HasPrefix(key, prefix) {
				rows = append(rows, checkpoint.Row{Key: key, Counter: v.counter, Data: v.data})
				size += len(v.data)
			}
		}
	} else {
		i, _ := slices.BinarySearch(p.keys, prefix)
		for ; i < len(p.keys) && strings.HasPrefix(p.keys[i], prefix); i++ {
			rows = append(rows, p.rows[p.keys[i]])
			size += len(rows[len(rows)-1].Data)
		}
	}
	return rows, task.Sleep(ctx, transfer(size))
}

// transfer is how long it takes to send so many bytes, at 50 MB/s.
func transfer(size int) time.Duration { return time.Duration(size) * 20 * time.Nanosecond }

// Swap changes a row of the ledger.
func (p *cutoverPlay) Swap(ctx context.Context, key string, was, next uint64, data []byte) (bool, error) {
	if err := task.Sleep(ctx, p.ledgerWrite()+transfer(len(data))); err != nil {
		return false, err
	}
	if p.rows[key].Counter != was {
		return false, nil
	}
	if strings.HasSuffix(key, "/cutover") {
		p.record = max(p.record, len(data))
		p.rewrites++
	}
	i, found := slices.BinarySearch(p.keys, key)
	switch {
	case data == nil && found:
		p.keys = slices.Delete(p.keys, i, i+1)
		delete(p.rows, key)
		return true, nil
	case !found:
		p.keys = slices.Insert(p.keys, i, key)
	}
	p.rows[key] = checkpoint.Row{Key: key, Counter: next, Data: slices.Clone(data)}
	return true, nil
}

// Describe, Put and Delete are the source.
func (p *cutoverPlay) Describe(ctx context.Context, table string) (backfill.Description, error) {
	err := task.Sleep(ctx, p.describe())
	return backfill.Description{Name: table, Items: 1_000_000, PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}, At: p.world.Now()}, err
}

func (p *cutoverPlay) Put(ctx context.Context, table string, item attribute.Item) error {
	takes := p.put()
	if err := task.Sleep(ctx, takes/2); err != nil {
		return err
	}
	of, _ := item.Get("replicator_cutover")
	n, _ := item.Get("replicator_canary")
	pk, _ := item.Get("pk")
	var attempt, number int
	if _, err := fmt.Sscan(of.Text()+" "+n.Text(), &attempt, &number); err != nil {
		return err
	}
	if attempt > 0 {
		p.canaries++
		p.streams[table].put(pk.Text(), uint32(attempt), number, p.world.Now())
	}
	return task.Sleep(ctx, takes-takes/2)
}

func (p *cutoverPlay) Delete(ctx context.Context, _ string, _ attribute.Item) error {
	return task.Sleep(ctx, p.put())
}

// ListFamilies, CreateFamily, DropFamily and DropDelay are the schemas of target tables.
func (p *cutoverPlay) ListFamilies(ctx context.Context, table string) ([]string, error) {
	return slices.Clone(p.families[table]), task.Sleep(ctx, p.describe())
}

func (p *cutoverPlay) CreateFamily(ctx context.Context, table, family string) error {
	p.families[table] = append(p.families[table], family)
	return task.Sleep(ctx, time.Second)
}

func (p *cutoverPlay) DropFamily(ctx context.Context, table, family string) error {
	p.families[table] = slices.DeleteFunc(p.families[table], func(f string) bool { return f == family })
	return task.Sleep(ctx, time.Second)
}

func (p *cutoverPlay) DropDelay() time.Duration { return 20 * time.Second }

// Call is the application's hooks. It measures how long the application is frozen: from the answer of
// the hook that freezes to the next call of a hook.
func (p *cutoverPlay) Call(ctx context.Context, call cutover.Call) (string, cutover.Outcome) {
	if call.Probe {
		return "groups", cutover.HookDone
	}
	now := p.world.Now()
	if call.Hook != cutover.FreezeWrites && !p.frozen.IsZero() {
		p.freezes = append(p.freezes, virtualFreeze{now.Sub(p.frozen), call.Hook == cutover.Switch, p.frozen.Sub(p.asked)})
		p.frozen, p.asked = time.Time{}, now
	}
	if task.Sleep(ctx, 200*time.Millisecond) != nil {
		return "", cutover.HookUnknown
	}
	if call.Hook == cutover.FreezeWrites {
		p.frozen = p.world.Now()
		for _, s := range p.streams {
			s.freeze(p.frozen)
		}
	}
	return "", cutover.HookDone
}

// Begin, Compare and Sample are the final comparison. The tables are large.
func (p *cutoverPlay) Begin(context.Context, checkpoint.TableState) (uint32, error) {
	return 0, errors.New("a full verify is not expected")
}

func (p *cutoverPlay) Compare(context.Context, checkpoint.TableState) (checkpoint.VerifyResult, error) {
	return checkpoint.VerifyResult{}, errors.New("a whole comparison is not expected")
}

func (p *cutoverPlay) Sample(ctx context.Context, state checkpoint.TableState, items int) (checkpoint.VerifyResult, error) {
	began := p.world.Now()
	err := task.Sleep(ctx, p.between(500*time.Millisecond, time.Second, 2*time.Second))
	return checkpoint.VerifyResult{VerifyCounts: checkpoint.VerifyCounts{Compared: int64(items)}, Generation: state.Generation, BegunAt: began, EndedAt: p.world.Now()}, err
}

// openStream is what the driver reads of a stream. Workers have read all records by then.
type openStream struct {
	p *cutoverPlay
	*virtualStream
}

// listingsASecond is what other callers leave of the account's ten DescribeStream calls a second.
const listingsASecond = 8

// ListPage lists the shards of a day, or the children of a shard.
func (s openStream) ListPage(ctx context.Context, parent, after string) (cdc.ListingPage, error) {
	now := s.p.world.Now()
	if s.p.listings++; now.Sub(s.p.listed) > time.Second {
		s.p.listed, s.p.listedNow = now, 0
	}
	if s.p.listedNow++; s.p.listedNow > listingsASecond {
		return cdc.ListingPage{}, &cdc.Error{Op: "DescribeStream", Reason: cdc.Throttled, Err: errors.New("rate exceeded")}
	}
	if err := task.Sleep(ctx, s.describe()); err != nil {
		return cdc.ListingPage{}, err
	}
	page := cdc.ListingPage{At: s.p.world.Now()}
	for _, v := range s.rows(page.At) {
		if v.id <= after || parent != "" && v.parent != parent {
			continue
		}
		if len(page.Shards) == 100 {
			page.Next = page.Shards[99].ID
			break
		}
		page.Shards = append(page.Shards, cdc.Shard{ID: v.id, Parent: v.parent, Closed: v.end.Before(page.At)})
	}
	return page, nil
}

func (s openStream) Seek(ctx context.Context, shard string, _ cdc.Position) (cdc.Iterator, error) {
	return cdc.Iterator(shard), task.Sleep(ctx, s.getRecords())
}

func (s openStream) Read(ctx context.Context, at cdc.Iterator) (cdc.Page, error) {
	err := task.Sleep(ctx, s.getRecords())
	now := s.p.world.Now()
	for _, chain := range s.slots {
		for _, v := range chain {
			if v.id == string(at) && !v.end.After(now) {
				return cdc.Page{End: true, At: now}, err
			}
		}
	}
	return cdc.Page{Next: at, At: now}, err
}
