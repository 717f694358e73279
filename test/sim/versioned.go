package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/dualwrite"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// rankAttribute is the version attribute of a run in which the application ranks its writes.
const rankAttribute = "rev"

// ranked returns the mapping of such a run.
func ranked(moving bool) *transform.Mapping {
	spec := transform.Spec{
		Source: "Orders", Table: "orders", VersionAttribute: rankAttribute, Families: []transform.Family{{Name: "d"}},
		PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}, {Name: "sk", Type: attribute.KindS}},
	}
	if moving {
		template, err := transform.ParseTemplate("{value}#{pk}#{sk}")
		if err != nil {
			panic(err)
		}
		spec.Rules = []transform.Rule{{Writes: []transform.Write{{RowKey: template}}}}
	}
	m, err := transform.New(spec)
	if err != nil {
		panic(err)
	}
	return m
}

// dualSource is the table as an application's server uses it: answers are lost or late.
type dualSource struct{ *dualRun }

func (s dualSource) Get(ctx context.Context, keys attribute.Item) (attribute.Item, bool, error) {
	pk, _ := keys.Get("pk")
	item := s.items[pk.Text()]
	return item, item.Exists(), task.Sleep(ctx, s.World.UpTo(100*time.Millisecond))
}

func (s dualSource) Write(ctx context.Context, c dualwrite.Change) (attribute.Item, error) {
	if err := task.Sleep(ctx, s.World.UpTo(100*time.Millisecond)); err != nil {
		return attribute.Item{}, err
	}
	key, _ := c.Keys.Get("pk")
	pk := key.Text()
	old := s.items[pk]
	held, has := old.Get(rankAttribute)
	if has != (c.Number != "") || has && held.Text() != c.Number {
		s.World.Inject("condition failed")
		return attribute.Item{}, dualwrite.ErrConflict
	}
	if s.World.Chance(0.03) {
		s.World.Inject("application's write lost")
		return attribute.Item{}, errors.New("no answer")
	}
	s.items[pk] = c.Image
	was, _ := old.Get("n")
	if is, existed := c.Image.Get("n"); existed && is.Text() == was.Text() {
		s.World.Inject("new item raised") // the image is the same but for its number
	}
	if c.Image.Exists() {
		s.Source.Put(c.Image)
	} else {
		s.Source.Delete(c.Keys)
	}
	if s.World.Chance(0.03) {
		s.World.Inject("answer of the application's write lost")
		return attribute.Item{}, errors.New("no answer")
	}
	return old, nil
}

// dualTarget is the target as an application's server uses it: any request may be late. Checkers do
// not judge its writes.
type dualTarget struct {
	model.Target
	run *dualRun
}

func (t dualTarget) WitnessStore(table string) checkpoint.Store {
	return model.Store{Bigtable: t.Bigtable, Table: table, Family: sink.LiveFamily}
}

func (t dualTarget) Apply(ctx context.Context, r *sink.Request) (bool, error) {
	delay := t.run.World.UpTo(50 * time.Millisecond)
	if t.run.World.Chance(0.3) {
		delay = t.run.World.UpTo(t.run.deadline)
	}
	if t.run.World.Chance(0.05) {
		t.run.World.Inject("application gone between its two writes")
		return false, &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Unknown, Code: "Unavailable"}
	}
	if err := task.Sleep(ctx, delay); err != nil {
		return false, err
	}
	return t.Target.Apply(ctx, r)
}

// changeRanked is one change by a server that uses the applications' package, beside other servers.
func (d *dualRun) changeRanked() {
	d.pending++
	d.World.Go("server", func(ctx context.Context) {
		defer func() { d.pending-- }()
		rng := d.World.Rand()
		pk := fmt.Sprintf("k%d", rng.IntN(6))
		keys := keysOf(pk)
		switch rng.IntN(12) {
		case 0:
			d.phantom(ctx, pk, keys)
			return
		case 1: // bypasses the package and does not raise the number: the stream orders it
			if item := d.items[pk]; item.Exists() {
				d.World.Inject("edit without a raise")
				d.items[pk] = d.imageOf(keys, item)
				d.Source.Put(d.items[pk])
			}
			return
		case 2: // it carries no number (H87)
			if d.items[pk].Exists() {
				d.World.Inject("removal without a number")
				d.items[pk] = attribute.Item{}
				d.Source.Delete(keys)
			}
			return
		case 3:
			d.restart(ctx)
			return
		case 4: // raises the number by a clock that is ahead: once the item is removed, it is created below
			if number, ok := d.numberOf(pk); ok {
				d.World.Inject("number ahead of the clock")
				d.ahead[pk] = true
				ahead := uint64(d.World.Now().Add(d.World.UpTo(farAhead)).UnixMilli())
				d.items[pk] = withRevision(d.imageOf(keys, attribute.Item{}), max(number+1, ahead))
				d.Source.Put(d.items[pk])
			}
			return
		}
		writer := d.servers[rng.IntN(len(d.servers))]
		var err error
		if rng.IntN(4) == 0 {
			err = writer.Delete(ctx, withNumber(keys, d.items[pk]))
		} else {
			_, err = writer.Update(ctx, keys, func(old attribute.Item) (attribute.Item, error) { return d.imageOf(keys, old), nil })
		}
		var failed *dualwrite.Error
		if err != nil && !errors.As(err, &failed) && context.Cause(ctx) == nil {
			d.failures = append(d.failures, "dualwrite: "+err.Error())
		}
	})
}

// imageOf returns a new image of an item, with its current number.
func (d *dualRun) imageOf(keys, old attribute.Item) attribute.Item {
	rng := d.World.Rand()
	d.written++
	value := fmt.Sprintf("v%d", d.written)
	if d.moving && rng.IntN(2) == 0 {
		value = fmt.Sprintf("place%d", rng.IntN(3))
	}
	list := append(slices.Clone(keys.Attributes()), attribute.Attribute{Name: "value", Value: attribute.String(value)},
		attribute.Attribute{Name: "n", Value: attribute.String(fmt.Sprint(d.written))})
	if rng.IntN(2) == 0 {
		list = append(list, attribute.Attribute{Name: fmt.Sprintf("extra%d", rng.IntN(3)), Value: attribute.String(value)})
	}
	return withNumber(attribute.NewItem(list), old)
}

// withNumber gives an item the number of another one.
func withNumber(item, of attribute.Item) attribute.Item {
	number, ok := of.Get(rankAttribute)
	if !ok {
		return item
	}
	return attribute.NewItem(append(slices.Clone(item.Attributes()), attribute.Attribute{Name: rankAttribute, Value: number}))
}

// phantom writes the target as a server must not after a failed condition: at a number that another
// server has used meanwhile. A write with that number or a higher one replaces it.
func (d *dualRun) phantom(ctx context.Context, pk string, keys attribute.Item) {
	read := d.items[pk]
	number, ok := d.numberOf(pk)
	if !ok || d.moving || task.Sleep(ctx, d.World.UpTo(d.deadline)) != nil {
		return
	}
	if now, exists := d.numberOf(pk); !exists || now <= number {
		return // in another row no change would repair it
	}
	d.World.Inject("phantom write")
	requests, err := dualwrite.Rows(d.Mapping, cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(1), Time: d.World.Now(), Keys: keys, New: withRevision(d.imageOf(keys, read), number+1)})
	if err != nil {
		panic(err)
	}
	for _, r := range requests {
		_, _ = model.Target{Bigtable: d.Target}.Apply(ctx, &r)
	}
}

// restart creates an item as a server that counts from 1, whatever its number was before (H87). The
// tombstone's number rejects the stream's change, and replicator raises the change above it.
func (d *dualRun) restart(ctx context.Context) {
	pk := fmt.Sprintf("r%d", d.World.Rand().IntN(3))
	keys := keysOf(pk)
	switch _, exists := d.numberOf(pk); {
	case !exists:
		d.World.Inject("number began anew")
		d.items[pk] = withRevision(d.imageOf(keys, attribute.Item{}), 1)
		d.Source.Put(d.items[pk])
	case d.World.Rand().IntN(3) > 0: // a raise
		_, _ = d.servers[0].Update(ctx, keys, func(old attribute.Item) (attribute.Item, error) { return d.imageOf(keys, old), nil })
	default:
		d.items[pk] = attribute.Item{}
		d.Source.Delete(keys)
	}
}

// farAhead is how far a clock of the application may be ahead.
const farAhead = time.Hour

// cure writes the recreated items again, above every earlier number.
func (d *dualRun) cure(ctx context.Context) {
	for _, pk := range append(slices.Sorted(maps.Keys(d.ahead)), "r0", "r1", "r2") {
		number, _ := d.numberOf(pk)
		above := uint64(d.World.Now().Add(farAhead).UnixMilli())
		d.items[pk] = withRevision(d.imageOf(keysOf(pk), attribute.Item{}), max(number, above)+1)
		d.Source.Put(d.items[pk])
		_ = task.Sleep(ctx, time.Second)
	}
}

func (d *dualRun) numberOf(pk string) (uint64, bool) {
	value, ok := d.items[pk].Get(rankAttribute)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(value.Text(), 10, 64)
	return n, err == nil
}

func withRevision(item attribute.Item, n uint64) attribute.Item {
	number, _ := attribute.Number(strconv.FormatUint(n, 10))
	return withNumber(item, attribute.NewItem([]attribute.Attribute{{Name: rankAttribute, Value: number}}))
}

func keysOf(pk string) attribute.Item {
	return attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(pk)}, {Name: "sk", Value: attribute.String("s")}})
}

// parkedKeys returns the partition keys of parked items.
func (d *dualRun) parkedKeys(ctx context.Context) (keys []string) {
	parking := sink.NewParking(model.Target{Bigtable: d.Target}, "default")
	_ = parking.List(ctx, d.Mapping.Source, func(_ sink.Ref, p transform.Parked) error {
		pk, _ := p.Change.Keys.Get("pk")
		keys = append(keys, pk.Text())
		return nil
	})
	return keys
}
