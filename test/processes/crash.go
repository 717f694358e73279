package processes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Crash runs one world. Workers are killed (SIGKILL) and restarted while the application keeps
// writing, until the number of kills is reached. Then it compares both stores completely. It
// injects no faults into the services, so they may be independent ones.
func Crash(ctx context.Context, o Options, kills int) error {
	return inWorld(ctx, o, o.Seed, func(w *world) error { return w.crash(ctx, kills) })
}

// inWorld creates a world, runs live in it, and closes it. The error says what happened last, and
// where the logs are.
func inWorld(ctx context.Context, o Options, seed uint64, live func(w *world) error) error {
	dir := filepath.Join(o.Dir, fmt.Sprintf("seed-%d", seed))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	w, err := newWorld(ctx, o, seed, dir)
	defer w.close()
	if err == nil {
		err = live(w)
	}
	if err != nil {
		notes := w.noted()
		return fmt.Errorf("seed %d: %w\nwhat happened last:\n%s\nlogs: %s", seed, err, strings.Join(notes[max(0, len(notes)-40):], "\n"), dir)
	}
	return os.RemoveAll(dir)
}

// crash runs such a world.
func (w *world) crash(ctx context.Context, kills int) error {
	w.begin()
	g, gctx := errgroup.WithContext(ctx)
	writing, stop := context.WithCancel(gctx)
	defer stop()
	g.Go(func() error { return w.writers.run(writing, w.seed<<16) })
	g.Go(func() error { return w.watch(writing) })
	g.Go(func() error {
		defer stop()
		return w.killAgain(gctx, kills)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	wrote := time.Since(w.began)
	w.note("the application has stopped writing")
	found, err := w.settle(ctx)
	if err != nil {
		return err
	}
	equal := time.Since(w.began) - wrote
	if err := w.finish(ctx); err != nil {
		return err
	}
	items, cells, tombstones := sum(found)
	_, _ = fmt.Fprintf(w.log, "%d workers, %d kills, %d shards taken in %.0f s; %d changes; equal %.1f s after the last one: %d items with %d cells, %d tombstones, 0 differences\n",
		len(w.workers), w.counts["kills"], w.counts["shards taken"], wrote.Seconds(), w.writers.made.Load(), equal.Seconds(), items, cells, tombstones)
	return nil
}

// killAgain kills workers: every other time the one with the most leases, otherwise any, and
// sometimes all at once.
func (w *world) killAgain(ctx context.Context, kills int) error {
	r := rand.New(rand.NewPCG(w.seed, 1<<45))
	for n := 0; n < kills; {
		victims := []int{r.IntN(len(w.workers))}
		switch {
		case n%2 == 0:
			busiest, err := w.busiest(ctx)
			if err != nil {
				return err
			}
			victims[0] = busiest
		case r.IntN(4) == 0:
			victims = r.Perm(len(w.workers))
		}
		g, gctx := errgroup.WithContext(ctx)
		for _, victim := range victims {
			when := span{between(r, 0, time.Second), between(r, 0, 2*time.Second)}
			g.Go(func() error { return w.kill(gctx, w.workers[victim], when) })
		}
		if err := g.Wait(); err != nil {
			return err
		}
		n += len(victims)
	}
	return nil
}

// noted returns what happened so far.
func (w *world) noted() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.notes)
}
