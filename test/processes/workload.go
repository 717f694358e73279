package processes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

const (
	// writersPerTable write concurrently. Each has its own items, so it knows which of them exist.
	writersPerTable = 3
	// hotItems of each writer get about a third of its changes.
	hotItems = 2
	// firstItems are in a table before its stream is enabled.
	firstItems = 300
	// mostItems limits each writer. Beyond it, removed items are recreated instead of new ones.
	mostItems = 8000
	// changesPerSecond counts all writers together.
	changesPerSecond = 150
)

// workload is an application that keeps changing the tables. It reaches DynamoDB without a proxy,
// so none of its writes has an unknown outcome.
type workload struct {
	client  *dynamodb.Client
	writers []*writer
	made    atomic.Int64 // changes
}

// writer changes the items of one table whose numbers have a certain remainder.
type writer struct {
	table *table
	index int
	next  int          // its next new item
	alive map[int]bool // its items: true if it exists, false if it was removed
}

// startWorkload creates the tables with their first items.
func startWorkload(ctx context.Context, client *dynamodb.Client, seed uint64) (*workload, error) {
	w := &workload{client: client}
	r := rand.New(rand.NewPCG(seed, 0))
	for _, t := range tables {
		var items []item
		for i := range writersPerTable {
			own := &writer{table: t, index: i, alive: map[int]bool{}}
			for range firstItems / writersPerTable {
				items = append(items, t.newItem(r, own.create()))
			}
			w.writers = append(w.writers, own)
		}
		if err := t.create(ctx, client, items); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// run changes the tables until ctx ends. A change that was begun is finished and recorded.
func (w *workload) run(ctx context.Context, seed uint64) error {
	limiter := rate.NewLimiter(changesPerSecond, len(w.writers))
	var g errgroup.Group
	for i, own := range w.writers {
		g.Go(func() error {
			r := rand.New(rand.NewPCG(seed, uint64(i)+1))
			for limiter.Wait(ctx) == nil {
				if err := w.change(context.WithoutCancel(ctx), r, own); err != nil {
					return fmt.Errorf("the application's write failed: %w", err)
				}
				w.made.Add(1)
			}
			return nil
		})
	}
	return g.Wait()
}

// live returns how many items of a table exist, by the writers' own records. No process may write
// meanwhile.
func (w *workload) live(t *table) int {
	n := 0
	for _, own := range w.writers {
		for _, exists := range own.alive {
			if own.table == t && exists {
				n++
			}
		}
	}
	return n
}

// create returns the number of a new item, and records that it exists.
func (own *writer) create() int {
	n := own.next*writersPerTable + own.index
	own.next++
	own.alive[n] = true
	return n
}

// pick returns one of the hot items, or any item that ever existed.
func (own *writer) pick(r *rand.Rand) int {
	among := own.next
	if r.IntN(3) == 0 {
		among = hotItems
	}
	return r.IntN(among)*writersPerTable + own.index
}

// change makes one change, which depends on whether the item exists.
func (w *workload) change(ctx context.Context, r *rand.Rand, own *writer) error {
	if r.IntN(100) < 10 && own.next < mostItems {
		return w.put(ctx, own.table, own.table.newItem(r, own.create()))
	}
	n := own.pick(r)
	if !own.alive[n] {
		if r.IntN(10) == 0 {
			return w.delete(ctx, own.table, n)
		}
		own.alive[n] = true
		return w.put(ctx, own.table, own.table.newItem(r, n))
	}
	switch d := r.IntN(100); {
	case d < 35:
		return w.update(ctx, r, own.table, n)
	case d < 50:
		names := twoNames(r)
		return w.edit(ctx, own.table, n, "REMOVE #a, #b", names, nil)
	case d < 70:
		return w.put(ctx, own.table, own.table.newItem(r, n))
	case d < 90:
		own.alive[n] = false
		return w.delete(ctx, own.table, n)
	case d < 94:
		return w.edit(ctx, own.table, n, "", nil, nil)
	case own.next >= mostItems:
		return w.put(ctx, own.table, own.table.newItem(r, n))
	default:
		return w.exchange(ctx, r, own, n)
	}
}

func (w *workload) put(ctx context.Context, t *table, it item) error {
	_, err := w.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &t.name, Item: it})
	return err
}

func (w *workload) delete(ctx context.Context, t *table, n int) error {
	_, err := w.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &t.name, Key: t.key(n)})
	return err
}

// update sets two attributes and increments a third.
func (w *workload) update(ctx context.Context, r *rand.Rand, t *table, n int) error {
	names := twoNames(r)
	names["#n"] = "visits"
	return w.edit(ctx, t, n, "SET #a = :a, #b = :b ADD #n :one", names, item{
		":a": newValue(r, 2), ":b": newValue(r, 2), ":one": &types.AttributeValueMemberN{Value: "1"},
	})
}

// edit sends an UpdateItem; without an expression it changes nothing.
func (w *workload) edit(ctx context.Context, t *table, n int, expression string, names map[string]string, values item) error {
	in := &dynamodb.UpdateItemInput{TableName: &t.name, Key: t.key(n), ExpressionAttributeNames: names, ExpressionAttributeValues: values}
	if expression != "" {
		in.UpdateExpression = aws.String(expression)
	}
	_, err := w.client.UpdateItem(ctx, in)
	return err
}

// exchange removes an item and creates another in one transaction.
func (w *workload) exchange(ctx context.Context, r *rand.Rand, own *writer, n int) error {
	t := own.table
	own.alive[n] = false
	_, err := w.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Delete: &types.Delete{TableName: &t.name, Key: t.key(n)}},
		{Put: &types.Put{TableName: &t.name, Item: t.newItem(r, own.create())}},
	}})
	return err
}

// twoNames gives the placeholders #a and #b two different attributes.
func twoNames(r *rand.Rand) map[string]string {
	first := r.IntN(len(attributes))
	return map[string]string{"#a": attributes[first], "#b": attributes[(first+1)%len(attributes)]}
}
