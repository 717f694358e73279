// Lag measures how long a change waits from the answer to its write until its row in Bigtable is
// durable, on the embedded services, each in a process of its own:
//
//	go run ./bench/lag -rate 50 -lasts 1m
//
// The worker has the defaults, or what -source says. An application changes items at the rate;
// further ones are watched.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/bigtable"
	"golang.org/x/sync/errgroup"

	"github.com/dynamodb-bigtable/replicator/bench/embedded"
)

// The goals.
const (
	halfGoal = 150 * time.Millisecond
	mostGoal = 300 * time.Millisecond
)

// looks is the time between two reads of a watched row, and the error of what is measured.
const looks = 2 * time.Millisecond

func main() {
	if text := os.Getenv(embedded.RoleVariable); text != "" {
		exit(embedded.Serve(text, os.Stdin, os.Stdout, nil))
	}
	rate := flag.Int("rate", 50, "how many changes a second")
	watched := flag.Int("watched", 10, "how many further changes a second are watched")
	lasts := flag.Duration("lasts", time.Minute, "how long is measured")
	settings := flag.String("source", "", `section "source" of the configuration, such as "poll_active: 1s"`)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	exit(run(ctx, *rate, *watched, *lasts, *settings))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(ctx context.Context, rate, watched int, lasts time.Duration, settings string) error {
	dir, err := os.MkdirTemp("", "replicator-lag-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program, err := embedded.Build(ctx, dir)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("version: 1\nsource: {%s}\ntarget: {project: bench, instance: bench}\ntables: [{from: %s}]\n", settings, embedded.Table)
	stand, err := embedded.NewStand(dir, program, text, embedded.Role{Items: 1})
	if err != nil {
		return err
	}
	defer stand.Stop()
	source := stand.Source
	client, closeConn, err := embedded.Open(ctx, stand.Target.Line)
	if err != nil {
		return err
	}
	defer closeConn()
	a := &application{source: source.Line, rows: client.Open(embedded.Table)}
	if err := a.settle(ctx); err != nil {
		return err
	}
	before, err := source.Polls()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := a.run(ctx, rate, watched, lasts); err != nil {
		return err
	}
	took := time.Since(began)
	after, err := source.Polls()
	if err != nil {
		return err
	}
	slices.Sort(a.waits)
	half, most := a.waits[len(a.waits)/2], a.waits[len(a.waits)*99/100]
	fmt.Printf("# %s, %s, %d cores\n# go run ./bench/lag %s\n", time.Now().UTC().Format(time.DateOnly), runtime.Version(), runtime.NumCPU(), strings.Join(os.Args[1:], " "))
	fmt.Printf("%d of %d changes watched, four shards: p50 %d ms (goal %d), p99 %d ms (goal %d), at most %d ms; %.2f GetRecords a second and shard\n", len(a.waits), a.changes,
		half.Milliseconds(), halfGoal.Milliseconds(), most.Milliseconds(), mostGoal.Milliseconds(), a.waits[len(a.waits)-1].Milliseconds(), float64(after-before)/took.Seconds()/4)
	if half > halfGoal || most > mostGoal {
		return errors.New("a goal is missed")
	}
	return nil
}

// application changes items of the source, and watches their rows.
type application struct {
	source string
	rows   *bigtable.Table

	mu      sync.Mutex
	changes int
	waits   []time.Duration
}

// settle waits until changes of many items, which lie in all shards, are replicated.
func (a *application) settle(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for n := range 100 {
		if err := a.change(limited, n, n%10 == 0); err != nil {
			return err
		}
	}
	a.waits, a.changes = nil, 0
	return nil
}

func (a *application) run(ctx context.Context, rate, watched int, lasts time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		tick := time.NewTicker(time.Second / time.Duration(max(rate, 1)))
		defer tick.Stop()
		for limited.Err() == nil {
			<-tick.C
			if err := a.change(gctx, rand.IntN(10_000), false); err != nil {
				return err
			}
		}
		return nil
	})
	// The times of watched changes do not depend on when the worker reads.
	for n := 0; limited.Err() == nil; n++ {
		time.Sleep(time.Duration(rand.ExpFloat64() * float64(time.Second) / float64(watched)))
		g.Go(func() error { return a.change(gctx, 10_000+n%10_000, true) })
	}
	return g.Wait()
}

// change puts an item. If it is watched, change returns once its row has the new value.
func (a *application) change(ctx context.Context, n int, watched bool) error {
	value := fmt.Sprintf("value-%016x", rand.Uint64())
	body := fmt.Sprintf(`{"TableName":%q,"Item":{"pk":{"S":%q},"note":{"S":%q}}}`, embedded.Table, embedded.Key(n), value)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+a.source, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("X-Amz-Target", "DynamoDB_20120810.PutItem")
	request.Header.Set("Content-Type", "application/x-amz-json-1.0")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("PutItem: %w: %s", err, answer)
	}
	began := time.Now()
	for watched {
		row, err := a.rows.ReadRow(ctx, embedded.Key(n))
		if err != nil && ctx.Err() != nil {
			return err
		}
		if err == nil && has(row, value) {
			break
		}
		time.Sleep(looks)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.changes++; watched {
		a.waits = append(a.waits, time.Since(began))
	}
	return nil
}

func has(row bigtable.Row, value string) bool {
	for _, cells := range row {
		for _, cell := range cells {
			if bytes.Contains(cell.Value, []byte(value)) {
				return true
			}
		}
	}
	return false
}
