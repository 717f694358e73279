package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/dynamodb-bigtable/replicator/bench/embedded"
)

const (
	// memoryLimit is what a worker may use.
	memoryLimit = 512 << 20
	// partsHeld is how many parts a worker works on at once: the default of backfill.segments.
	partsHeld = 4
)

// setting is two services, and workers between them.
type setting struct {
	source, target *embedded.Service
	workers        []*embedded.Worker
	peak           int64 // of all workers so far
}

func (s *setting) stop() {
	for _, w := range s.workers {
		w.Kill()
	}
	s.target.Stop()
}

// watch asks until the copy is done, and calls each with what was scanned so far. Somebody has to
// answer within a minute.
func (s *setting) watch(ctx context.Context, each func(embedded.Scans) error) (took time.Duration, seen embedded.Scans, err error) {
	answered := time.Now()
	for {
		if seen, err = s.source.Scans(); err != nil {
			return 0, seen, err
		}
		if err := each(seen); err != nil {
			return 0, seen, err
		}
		for _, w := range s.workers {
			s.peak = max(s.peak, embedded.Peak(w.Process.Pid))
			done, err := w.Copied()
			if err == nil {
				answered = time.Now()
			}
			if done {
				took = time.Since(seen.First)
				seen, err = s.source.Scans()
				return took, seen, err
			}
		}
		if time.Since(answered) > time.Minute {
			return 0, seen, errors.New("no worker has answered for a minute")
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return 0, seen, context.Cause(ctx)
		}
	}
}

// copyInterrupted copies the table with interruptions, and judges what it took.
func copyInterrupted(ctx context.Context, o options, dir, program string, log io.Writer) error {
	if err := embedded.Configure(dir); err != nil {
		return err
	}
	s := &setting{}
	var err error
	if s.source, err = embedded.Start(embedded.Role{Source: true, Items: o.items}); err != nil {
		return err
	}
	defer s.source.Stop()
	if s.target, err = embedded.Start(embedded.Role{}); err != nil {
		return err
	}
	defer s.stop()
	for i := range o.workers {
		w := &embedded.Worker{Program: program, Dir: dir, Source: s.source.Line, Target: s.target.Line, Name: string(rune('a' + i))}
		if err := w.Start(); err != nil {
			return err
		}
		s.workers = append(s.workers, w)
	}
	r, interruptions := rand.New(rand.NewPCG(1, 1)), 0
	took, seen, err := s.watch(ctx, func(seen embedded.Scans) error {
		// Within the first two thirds: while a worker stops, the others go on copying.
		if interruptions >= o.interruptions || seen.Items < 2*(interruptions+1)*o.items/(3*(o.interruptions+1)) {
			return nil
		}
		w := s.workers[r.IntN(len(s.workers))]
		interruptions++
		s.peak = max(s.peak, embedded.Peak(w.Process.Pid))
		return interrupt(w, interruptions)
	})
	if err != nil {
		return err
	}
	differences, err := compare(ctx, s.target.Line, o.items)
	if err != nil {
		return err
	}
	allowed := o.items + interruptions*partsHeld*seen.Largest
	_, _ = fmt.Fprintf(log, "%d items, %d workers, %d interruptions: copied in %.0f s, %.0f items/s\n", o.items, o.workers, interruptions, took.Seconds(),
		float64(o.items)/took.Seconds())
	_, _ = fmt.Fprintf(log, "read %d items; allowed %d = items + interruptions x %d parts held x a page of %d\n", seen.Items, allowed, partsHeld, seen.Largest)
	_, _ = fmt.Fprintf(log, "most memory of a worker: %d MiB; allowed %d\n%d differences\n", s.peak>>20, memoryLimit>>20, differences)
	switch {
	case interruptions < o.interruptions:
		return fmt.Errorf("only %d interruptions", interruptions)
	case seen.Items > allowed:
		return errors.New("too much was read")
	case s.peak > memoryLimit:
		return errors.New("a worker used too much memory")
	case differences > 0:
		return errors.New("the target differs from the source")
	}
	return nil
}

// interrupt kills a worker, freezes it for longer than its leases, or stops it cleanly, in turn;
// one that ended is started again.
func interrupt(w *embedded.Worker, n int) error {
	switch n % 3 {
	case 0:
		if err := w.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		select {
		case <-w.Exited:
		case <-time.After(30 * time.Second):
			return errors.New("a worker did not stop within 30 s")
		}
	case 1:
		w.Kill()
	default:
		if err := w.Process.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		time.AfterFunc(embedded.Lease+2*time.Second, func() { _ = w.Process.Signal(syscall.SIGCONT) })
		return nil
	}
	return w.Start()
}

// compare reads all rows and counts those that are not what their item says, and items without one.
func compare(ctx context.Context, address string, items int) (differences int, err error) {
	client, closeConn, err := embedded.Open(ctx, address)
	if err != nil {
		return 0, err
	}
	defer closeConn()
	found := 0
	err = client.Open(embedded.Table).ReadRows(ctx, bigtable.InfiniteRange(""), func(row bigtable.Row) bool {
		_, text, _ := strings.Cut(row.Key(), "-")
		var n int
		if strings.HasPrefix(row.Key(), "\xff_cdc") {
			return true
		}
		if _, err := fmt.Sscan(text, &n); err != nil || n >= items || row.Key() != embedded.Key(n) {
			differences++
			return true
		}
		found++
		wanted := map[string]string{"d:pk": embedded.Key(n), "d:number": embedded.Number(n), "d:note": embedded.Note(n)}
		for _, cell := range row["d"] {
			if wanted[cell.Column] == string(cell.Value) {
				delete(wanted, cell.Column)
			} else {
				wanted[cell.Column+" is wrong"] = ""
			}
		}
		if len(wanted) > 0 {
			differences++
		}
		return true
	}, bigtable.RowFilter(bigtable.LatestNFilter(1)))
	return differences + items - found, err
}
