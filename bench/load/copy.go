package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
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
	export         bool  // the copy is of an export, in place of a scan
	files          int   // that it has
	sampled        int   // items that were scanned before its copy was asked for, of which the split points of the target are made
	peak           int64 // of all workers so far
}

func (s *setting) stop() {
	for _, w := range s.workers {
		w.Kill()
	}
	for _, service := range []*embedded.Service{s.target, s.source} {
		if service != nil {
			service.Stop()
		}
	}
}

// begin starts the services, and workers that copy by a scan or, with export, an export of so many
// files. The setting is to be stopped even if it fails.
func begin(ctx context.Context, o options, export bool, mode string, workers int, dir, program string) (s *setting, err error) {
	s = &setting{export: export}
	if err := embedded.Configure(dir); err != nil {
		return s, err
	}
	if mode != "" {
		if err := addMode(dir, mode); err != nil {
			return s, err
		}
	}
	role, flags := embedded.Role{Source: true, Items: o.items}, []string(nil)
	if export {
		role.ExportsTo, role.ExportFiles, flags = dir, o.files, []string{"--no-backfill"}
	}
	if s.source, err = embedded.Start(role); err != nil {
		return s, err
	}
	if s.target, err = embedded.Start(embedded.Role{}); err != nil {
		return s, err
	}
	for i := range workers {
		s.workers = append(s.workers, &embedded.Worker{Program: program, Dir: dir, Source: s.source.Line, Target: s.target.Line, Name: string(rune('a' + i)), Flags: flags})
	}
	if export {
		if err := s.ask(ctx, dir); err != nil {
			return s, err
		}
	}
	for _, w := range s.workers {
		if err := w.Start(); err != nil {
			return s, err
		}
	}
	return s, nil
}

// addMode sets how loads write rows in the configuration.
func addMode(dir, mode string) error {
	file := filepath.Join(dir, "replicator.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, "backfill: {mode: "+mode+"}\n"...), 0o600)
}

// ask begins to follow the table, exports it, and asks for the copy of the export, in the order that
// the runbook has.
func (s *setting) ask(ctx context.Context, dir string) error {
	w := s.workers[0]
	if out, err := w.Command(ctx, "run", "--once", "--idle", "200ms", "--no-backfill", "--listen", "off").CombinedOutput(); err != nil {
		return fmt.Errorf("run --no-backfill: %w: %s", err, out)
	}
	seen, err := s.source.Scans()
	if err != nil {
		return err
	}
	s.sampled = seen.Items
	folder, err := s.source.Export(dir)
	if err != nil {
		return err
	}
	packed, err := filepath.Glob(filepath.Join(folder, "data", "*.json.gz"))
	if err != nil {
		return err
	}
	s.files = len(packed)
	if out, err := w.Command(ctx, "backfill", "start", "--table", embedded.Table, "--export", folder, "--whole-export").CombinedOutput(); err != nil {
		return fmt.Errorf("backfill start --export: %w: %s", err, out)
	}
	return nil
}

// watch asks until the copy is done, and calls each with how many items were scanned or, of an
// export, copied so far. Somebody has to answer within a minute.
func (s *setting) watch(ctx context.Context, each func(items int) error) (took time.Duration, err error) {
	answered, began, items := time.Now(), time.Time{}, 0
	for {
		if !s.export {
			seen, err := s.source.Scans()
			if err != nil {
				return 0, err
			}
			items, began = seen.Items, seen.First
		}
		if err := each(items); err != nil {
			return 0, err
		}
		for _, w := range s.workers {
			s.peak = max(s.peak, embedded.Peak(w.Process.Pid))
			copied, err := w.Copied()
			if err != nil {
				continue
			}
			answered = time.Now()
			if s.export && copied.State != "not_started" {
				items = max(items, copied.Items)
				if began.IsZero() {
					began = answered
				}
			}
			if copied.Done() {
				return time.Since(began), nil
			}
		}
		if time.Since(answered) > time.Minute {
			return 0, errors.New("no worker has answered for a minute")
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// copyInterrupted copies the table with interruptions, and judges what it took.
func copyInterrupted(ctx context.Context, o options, dir, program string, log io.Writer) error {
	s, err := begin(ctx, o, o.export, "", o.workers, dir, program)
	defer s.stop()
	if err != nil {
		return err
	}
	r, interruptions := rand.New(rand.NewPCG(1, 1)), 0
	took, err := s.watch(ctx, func(items int) error {
		// Within the first two thirds: while a worker stops, the others go on copying.
		if interruptions >= o.interruptions || items < 2*(interruptions+1)*o.items/(3*(o.interruptions+1)) {
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
	_, _ = fmt.Fprintf(log, "%d items, %d workers, %d interruptions: copied in %.0f s, %.0f items/s\n", o.items, o.workers, interruptions, took.Seconds(),
		float64(o.items)/took.Seconds())
	excess, err := s.read(o.items, interruptions, log)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(log, "most memory of a worker: %d MiB; allowed %d\n%d differences\n", s.peak>>20, memoryLimit>>20, differences)
	switch {
	case interruptions < o.interruptions:
		return fmt.Errorf("only %d interruptions", interruptions)
	case excess:
		return errors.New("too much was read")
	case s.peak > memoryLimit:
		return errors.New("a worker used too much memory")
	case differences > 0:
		return errors.New("the target differs from the source")
	}
	return nil
}

// read prints what was read: with an export no item by a scan, and without one not many more than
// there are.
func (s *setting) read(items, interruptions int, log io.Writer) (excess bool, err error) {
	seen, err := s.source.Scans()
	if err != nil {
		return false, err
	}
	if s.export {
		_, _ = fmt.Fprintf(log, "of an export of %d files; read %d items by scans; allowed 0\n", s.files, seen.Items-s.sampled)
		return seen.Items > s.sampled, nil
	}
	allowed := items + interruptions*partsHeld*seen.Largest
	_, _ = fmt.Fprintf(log, "read %d items; allowed %d = items + interruptions x %d parts held x a page of %d\n", seen.Items, allowed, partsHeld, seen.Largest)
	return seen.Items > allowed, nil
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
