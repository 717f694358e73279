package processes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/dynamodb-bigtable/replicator/internal/demo"
)

// Two workers settle the changes that two processes of an application write to both stores. The
// applications stop retrying before the settle time has passed.
const (
	dualWorkers  = 2
	dualSettle   = 6 * time.Second
	dualDeadline = 5 * time.Second
	dualRate     = 40 // changes per second, each process
	dualItems    = 150
	dualLasts    = 22 * time.Second
)

// shop is the table that the demo's application writes.
var shop = &table{
	name:   "Shop",
	schema: []keyAttribute{{"customer", types.ScalarAttributeTypeS}, {"order", types.ScalarAttributeTypeS}},
	row: func(it item) string {
		text := func(name string) string { return it[name].(*types.AttributeValueMemberS).Value }
		return escape(text("customer")) + "#" + text("order") // nothing follows the last part
	},
}

// server is one process of the application, with several application servers. A killed process is
// replaced.
type server struct {
	name    string
	skew    time.Duration
	starts  uint64
	command *exec.Cmd
}

// DualWrites kills processes of an application and workers, and splits and rolls shards, while the
// application writes both stores. Once the settle time has passed after its end, nothing may
// differ.
func DualWrites(ctx context.Context, o Options) error {
	o.DualWrites = true
	return inWorld(ctx, o, o.Seed, func(w *world) error { return w.dualWrite(ctx, o) })
}

// openDualWrites creates the table and starts the workers.
func (w *world) openDualWrites(ctx context.Context, o Options, target string) error {
	if err := shop.create(ctx, w.source, nil); err != nil {
		return err
	}
	config := filepath.Join(w.dir, "replicator.yaml")
	text := fmt.Sprintf("version: 1\ntarget: {project: %s, instance: %s}\nstate: {lease: %s}\ntables:\n  - from: %s\n"+
		"dual_writes: {settle: %s}\nverify: {settle: 2s}\n", project, instance, lease, shop.name, dualSettle)
	if o.Cutover {
		if err := w.openSite(o); err != nil {
			return err
		}
		text += w.site.configuration()
	}
	if err := errors.Join(os.WriteFile(config, []byte(text), 0o600), os.WriteFile(filepath.Join(w.dir, "aws"), nil, 0o600)); err != nil {
		return err
	}
	for i := range dualWorkers {
		n := &worker{name: name(i), command: []string{"run"}, program: o.Program, dir: w.dir, config: config, life: lifeTime}
		if err := w.startWorker(n, target, ""); err != nil {
			return err
		}
	}
	return nil
}

// dualWrite runs such a world.
func (w *world) dualWrite(ctx context.Context, o Options) error {
	w.begin()
	for _, n := range w.workers {
		if err := n.ready(ctx); err != nil {
			return err
		}
	}
	servers := []*server{{name: "x", skew: time.Hour}, {name: "y", skew: 20 * time.Second}}
	for _, s := range servers {
		if err := w.serve(o, s); err != nil {
			return err
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	writing, stop := context.WithTimeout(gctx, dualLasts)
	defer stop()
	g.Go(func() error { return w.watch(writing) })
	g.Go(func() error { return w.roll(writing) })
	g.Go(func() error { return w.killDual(writing, o, servers) })
	if err := g.Wait(); err != nil {
		return err
	}
	for _, s := range servers {
		if err := s.stop(); err != nil {
			return err
		}
	}
	w.note("the application has stopped writing")
	if err := wait(ctx, dualSettle); err != nil {
		return err
	}
	out, err := w.verify(ctx)
	if err != nil {
		return fmt.Errorf("%s after the application stopped: %w\n%s", dualSettle, err, out)
	}
	_, _ = fmt.Fprintf(w.log, "seed %d: %d workers and %d processes of an application, %s; equal %s after it stopped\n", w.seed, dualWorkers, len(servers), listed(w.counts), dualSettle)
	var stopped errgroup.Group
	for _, n := range w.workers {
		stopped.Go(func() error { return n.stop(ctx) })
	}
	return stopped.Wait()
}

// serve starts a process of the application.
func (w *world) serve(o Options, s *server) error {
	s.starts++
	s.command = exec.Command(o.Program, "demo", demo.ApplicationCommand, "--dynamodb", "http://"+w.dynamo.address, "--bigtable", w.target,
		"--instance", project+"/"+instance, "--items", strconv.Itoa(dualItems), "--rate", strconv.Itoa(dualRate), "--duration", lifeTime.String(),
		"--deadline", dualDeadline.String(), "--skew", s.skew.String(), "--seed", strconv.FormatUint(w.seed<<8+s.starts<<4+uint64(s.name[0]), 10))
	var complaint strings.Builder
	s.command.Stderr, s.command.Dir = &complaint, w.dir
	if err := s.command.Start(); err != nil {
		return err
	}
	w.onClose(func() { _ = s.command.Process.Kill() })
	return nil
}

// stop ends a process of the application, which first finishes its in-flight writes.
func (s *server) stop() error {
	if !signals {
		time.Sleep(dualDeadline)
		_ = s.command.Process.Kill()
	} else if err := terminate(s.command.Process); err != nil {
		return err
	}
	if err := s.command.Wait(); err != nil && signals {
		return fmt.Errorf("process %s of the application: %w: %s", s.name, err, s.command.Stderr)
	}
	return nil
}

// killDual kills workers and processes of the application in turn, until ctx ends.
func (w *world) killDual(ctx context.Context, o Options, servers []*server) error {
	r := rand.New(rand.NewPCG(w.seed, 1<<46))
	for n := 0; wait(ctx, between(r, time.Second, 3*time.Second)) == nil; n++ {
		if n%2 == 0 {
			s := servers[r.IntN(len(servers))]
			_ = s.command.Process.Kill()
			_ = s.command.Wait()
			w.note("process %s of the application is killed between its writes", s.name)
			w.count("kills of the application")
			if err := w.serve(o, s); err != nil {
				return err
			}
			continue
		}
		if err := w.kill(context.WithoutCancel(ctx), w.workers[r.IntN(len(w.workers))], span{0, between(r, 0, 2*time.Second)}); err != nil {
			return err
		}
	}
	return nil
}

// roll splits and rolls shards until ctx ends.
func (w *world) roll(ctx context.Context) error {
	r := rand.New(rand.NewPCG(w.seed, 1<<47))
	for wait(ctx, between(r, time.Second, 4*time.Second)) == nil {
		if err := w.reshard(ctx, r, shop.name); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// verify compares both stores as an operator does.
func (w *world) verify(ctx context.Context) (string, error) {
	n := w.workers[0]
	c := exec.CommandContext(ctx, n.program, "verify", "--config", n.config, "--allow-emulator", "--timeout", "1m")
	c.Env, c.Dir = n.environment(), w.dir
	out, err := c.CombinedOutput()
	return string(out), err
}
