package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

// writers is the number of application clients that write concurrently.
const writers = 8

// hotItems is the number of popular items. About a third of all changes go to them.
const hotItems = 5

// workload is an application that keeps changing the table.
type workload struct {
	client *dynamodb.Client
	rate   float64 // changes a second
	seed   uint64

	mu      sync.Mutex
	next    int        // number of the next new item
	removed []identity // keys of removed items, which may be created again

	runs   uint64 // number of runs; each run has its own random sources
	counts [kinds]atomic.Int64
}

// kind is the kind of a change.
type kind int

const (
	insert kind = iota
	update
	removeAttribute
	replace
	remove
	recreate
	kinds
)

var kindNames = [kinds]string{"inserts", "updates", "removed attributes", "replacements", "deletes", "re-creations"}

// draw picks a kind in the proportions of a busy shop.
func draw(r *rand.Rand) kind {
	switch n := r.IntN(100); {
	case n < 15:
		return insert
	case n < 55:
		return update
	case n < 70:
		return removeAttribute
	case n < 80:
		return replace
	case n < 93:
		return remove
	default:
		return recreate
	}
}

// run changes the table for the duration, or until ctx ends.
func (w *workload) run(ctx context.Context, duration time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	w.runs++
	limiter := rate.NewLimiter(rate.Limit(w.rate), writers)
	g := new(errgroup.Group)
	for n := range writers {
		g.Go(func() error {
			r := rand.New(rand.NewPCG(w.seed, uint64(n)+w.runs<<32))
			for limiter.Wait(limited) == nil {
				k := draw(r)
				// The end of the duration does not interrupt a change that has begun. Only the end
				// of ctx does.
				if err := w.change(ctx, r, k); err != nil {
					return fmt.Errorf("the application's write failed: %w", err)
				}
				w.counts[k].Add(1)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// total returns the number of changes so far.
func (w *workload) total() int64 {
	var n int64
	for i := range w.counts {
		n += w.counts[i].Load()
	}
	return n
}

// String returns the number of changes of each kind.
func (w *workload) String() string {
	text := ""
	for k, name := range kindNames {
		if k > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%d %s", w.counts[k].Load(), name)
	}
	return text
}

func (w *workload) change(ctx context.Context, r *rand.Rand, k kind) error {
	switch k {
	case insert:
		w.mu.Lock()
		id := identityOf(w.next)
		w.next++
		w.mu.Unlock()
		return w.put(ctx, newItem(r, id))
	case update:
		return w.update(ctx, r, w.pick(r))
	case removeAttribute:
		_, err := w.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: aws.String(tableName), Key: w.pick(r).key(),
			UpdateExpression:         aws.String("REMOVE #a, #b"),
			ExpressionAttributeNames: twoNames(r),
		})
		return err
	case replace:
		// The new item has only half of the attributes. The other attributes of the old item must
		// disappear from the row.
		it := newItem(r, w.pick(r))
		for _, name := range attributes {
			if r.IntN(2) == 0 {
				delete(it, name)
			}
		}
		return w.put(ctx, it)
	case remove:
		id := w.pick(r)
		_, err := w.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: aws.String(tableName), Key: id.key()})
		if err == nil {
			w.mu.Lock()
			w.removed = append(w.removed, id)
			w.mu.Unlock()
		}
		return err
	default:
		return w.put(ctx, newItem(r, w.pickRemoved(r)))
	}
}

func (w *workload) put(ctx context.Context, it item) error {
	_, err := w.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(tableName), Item: it})
	return err
}

// update sets two attributes and increments a third.
func (w *workload) update(ctx context.Context, r *rand.Rand, id identity) error {
	names := twoNames(r)
	names["#n"] = "visits"
	_, err := w.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: aws.String(tableName), Key: id.key(),
		UpdateExpression:         aws.String("SET #a = :a, #b = :b ADD #n :one"),
		ExpressionAttributeNames: names,
		ExpressionAttributeValues: item{
			":a": newValue(r, names["#a"]), ":b": newValue(r, names["#b"]), ":one": &types.AttributeValueMemberN{Value: "1"},
		},
	})
	return err
}

// twoNames returns the placeholders #a and #b with two different attributes.
func twoNames(r *rand.Rand) map[string]string {
	first := r.IntN(len(attributes))
	return map[string]string{"#a": attributes[first], "#b": attributes[(first+1)%len(attributes)]}
}

// pick chooses an item: one of the hot items, or any item that was ever created.
func (w *workload) pick(r *rand.Rand) identity {
	if r.IntN(3) == 0 {
		return identityOf(r.IntN(hotItems))
	}
	w.mu.Lock()
	made := w.next
	w.mu.Unlock()
	return identityOf(r.IntN(max(made, 1)))
}

// pickRemoved chooses an item that was removed. If there is none, it chooses any item.
func (w *workload) pickRemoved(r *rand.Rand) identity {
	w.mu.Lock()
	if len(w.removed) > 0 {
		n := r.IntN(len(w.removed))
		id := w.removed[n]
		w.removed = slices.Delete(w.removed, n, n+1)
		w.mu.Unlock()
		return id
	}
	w.mu.Unlock()
	return w.pick(r)
}
