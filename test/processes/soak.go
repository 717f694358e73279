package processes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// sampleEvery is the time between two samples of every worker.
	sampleEvery = 5 * time.Second
	// soakLivelyLeast and soakLivelyMost bound the time between two events of the source: about one
	// roll or split in 15 seconds. A real shard rolls every four hours.
	soakLivelyLeast, soakLivelyMost = 5 * time.Second, 15 * time.Second
	// replaceLeast and replaceMost bound the time between two replacements of a worker.
	replaceLeast, replaceMost = 40 * time.Second, 80 * time.Second
	// warmUp is the part of a run that is not judged, and youth the part of a process's life.
	warmUp = 0.1
	youth  = 20 * time.Second
	// steady is the worker that is never replaced.
	steady = 0
)

// Soak runs one world under continuous load. Shards roll and split. Two of the workers are replaced
// repeatedly, the third never, and the busiest is frozen from time to time. It prints a complete
// comparison of the stores, and the trend of each worker's resources. It fails if a worker's
// memory, goroutines or descriptors grow. It does not judge runs of a few minutes, which are too
// short.
func Soak(ctx context.Context, o Options, duration time.Duration) error {
	o.lasts = duration
	return inWorld(ctx, o, o.Seed, func(w *world) error {
		return (&soak{world: w, duration: duration, samples: make([][]sample, len(w.workers))}).run(ctx)
	})
}

// soak is one such run.
type soak struct {
	*world
	duration time.Duration
	samples  [][]sample // by worker, without those of the warm-up and of a process's youth
}

func (s *soak) run(ctx context.Context) error {
	for _, n := range s.workers {
		if err := n.ready(ctx); err != nil {
			return err
		}
	}
	s.begin()
	g, gctx := errgroup.WithContext(ctx)
	writing, stop := context.WithTimeout(gctx, s.duration)
	defer stop()
	g.Go(func() error { return s.writers.run(writing, s.seed<<16) })
	g.Go(func() error { return s.disturb(writing, 0, soakLivelyLeast, soakLivelyMost) })
	g.Go(func() error { return s.watch(writing) })
	g.Go(func() error { return s.sample(writing) })
	g.Go(func() error { return s.replace(gctx, writing) })
	if err := g.Wait(); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return s.conclude(ctx)
}

// replace kills or stops all workers except the steady one, and restarts them. In between it
// freezes the worker with the most leases for longer than they last. Otherwise one worker would
// soon hold all shards, because a worker keeps the shards it took, and the others' ends would have
// no effect. Replacements that were begun are finished.
func (s *soak) replace(ctx, writing context.Context) error {
	r := rand.New(rand.NewPCG(s.seed, 1<<46))
	for n := 0; ; n++ {
		// Even a short run has some faults.
		pause := min(between(r, replaceLeast, replaceMost), s.duration/5)
		if wait(writing, pause) != nil {
			return nil
		}
		victim := s.workers[steady+1+r.IntN(len(s.workers)-1)]
		var err error
		switch {
		case n%3 == 2 && signals:
			var busiest int
			if busiest, err = s.busiest(ctx); err == nil {
				victim = s.workers[busiest]
				err = s.freeze(ctx, victim, span{0, between(r, lease+time.Second, lease+4*time.Second)}, false)
			}
		case n%3 == 1 && signals:
			err = s.restart(ctx, victim)
		default:
			err = s.kill(ctx, victim, span{0, between(r, 0, lease)})
		}
		if err == nil {
			err = victim.ready(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// sample reads the workers' resources repeatedly. It skips a worker that is being replaced.
func (s *soak) sample(ctx context.Context) error {
	for wait(ctx, min(sampleEvery, s.duration/20)) == nil {
		for i, n := range s.workers {
			taken, age, ok := n.sample(ctx)
			taken.at = time.Since(s.began)
			if ok && age > youth && taken.at.Seconds() > warmUp*s.duration.Seconds() {
				s.samples[i] = append(s.samples[i], taken)
			}
		}
	}
	return nil
}

// conclude compares the stores, prints the measurements, and judges them.
func (s *soak) conclude(ctx context.Context) error {
	changes, wrote := s.writers.made.Load(), time.Since(s.began)
	if err := s.dynamo.control(ctx, "clear-faults", nil, nil); err != nil {
		return err
	}
	found, err := s.settle(ctx)
	if err != nil {
		return err
	}
	equal := time.Since(s.began) - wrote
	if err := s.finish(ctx); err != nil {
		return err
	}
	items, cells, tombstones := sum(found)
	_, _ = fmt.Fprintf(s.log, "\n%d changes in %.0f s, %.0f a second\n%s\n", changes, wrote.Seconds(), float64(changes)/wrote.Seconds(), s.totals())
	_, _ = fmt.Fprintf(s.log, "equal %.1f s after the last write: %d items with %d cells, %d tombstones, 0 differences\n", equal.Seconds(), items, cells, tombstones)
	return s.verdict()
}

// judgedFrom is the shortest run whose trends are meaningful.
const judgedFrom = 5 * time.Minute

// verdict prints and judges the trends.
func (s *soak) verdict() error {
	if s.duration < judgedFrom {
		_, _ = fmt.Fprintf(s.log, "trends are not judged: a run of less than %s tells nothing about them\n", judgedFrom)
		return nil
	}
	var grow []error
	for i, samples := range s.samples {
		for m := range leases {
			t, ok := judge(samples, m)
			if !ok {
				if i == steady {
					return errors.New("the worker that is never replaced gave too few samples")
				}
				continue
			}
			_, _ = fmt.Fprintf(s.log, "%s %-12s %s\n", s.workers[i].name, measured[m].name, t)
			if !t.flat {
				grow = append(grow, fmt.Errorf("%s of worker %s: %s", measured[m].name, s.workers[i].name, t))
			}
		}
	}
	return errors.Join(grow...)
}
