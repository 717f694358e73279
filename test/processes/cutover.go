package processes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/hook"
)

const (
	// cutoverLimit is the longest time for a part of a cutover.
	cutoverLimit = time.Minute
	watchLasts   = 10 * time.Second
)

// site is the application's server. The hooks of a cutover call it.
type site struct {
	w       *world
	o       Options
	address string

	mu      sync.Mutex
	servers []*server
	writes  bool     // the application writes the source
	moved   bool     // the switch has moved it to the target
	calls   []string // hooks called, without probes
}

// notNow is the reason with which the first call is refused.
const notNow = "the release is not there yet"

// openSite listens for the hooks.
func (w *world) openSite(o Options) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	w.site = &site{w: w, o: o, address: listener.Addr().String(), servers: []*server{{name: "x", skew: time.Hour}, {name: "y", skew: 20 * time.Second}}}
	serving := &http.Server{Handler: w.site, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = serving.Serve(listener) }() // ends with Close
	w.onClose(func() { _ = serving.Close() })
	return nil
}

// configuration returns the configuration of a cutover whose hooks call the site.
func (s *site) configuration() string {
	text := fmt.Sprintf("cutover:\n  ready_when: {lag_held_for: 0s}\n  listing_bound: 1s\n  freeze_at_most: 20s\n  watch_for: %s\n  hooks:\n", watchLasts)
	for _, name := range cutover.HookNames {
		text += fmt.Sprintf("    %s: http://%s/\n", name, s.address)
	}
	return text
}

// ServeHTTP implements the hooks. The freeze is refused once. In the next attempt the switch is
// made, but the answer to its first call is lost.
func (s *site) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	if request.Header.Get(hook.ProbeHeader) != "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := request.Header.Get(hook.HookHeader)
	s.calls = append(s.calls, name)
	s.w.note("hook %s %s", name, request.Header.Get(hook.TokenHeader))
	var err error
	switch {
	case len(s.calls) == 1:
		answer.Header().Set(hook.OutcomeHeader, "refused")
		http.Error(answer, notNow, http.StatusConflict)
		return
	case name == cutover.FreezeWrites:
		err = s.stop()
	case name == cutover.UnfreezeWrites:
		err = s.start()
	case s.writes:
		err = errors.New("the application still writes to the source")
	case !s.moved:
		s.moved = true
		err = errors.New("what becomes of the answer is not known")
	}
	if err != nil {
		http.Error(answer, err.Error(), http.StatusInternalServerError)
	}
}

// start starts the application, unless it runs.
func (s *site) start() error {
	if s.writes || s.moved {
		return nil
	}
	for _, n := range s.servers {
		if err := s.w.serve(s.o, n); err != nil {
			return err
		}
	}
	s.writes = true
	return nil
}

// stop stops the application, if it runs.
func (s *site) stop() error {
	if !s.writes {
		return nil
	}
	for _, n := range s.servers {
		if err := n.stop(); err != nil {
			return err
		}
	}
	s.writes = false
	return nil
}

// Cutover cuts over a table that an application writes beside two workers. The freeze is refused
// once, so the application resumes. The answer of the switch is lost once. At the end none of
// replicator's metadata is left.
func Cutover(ctx context.Context, o Options) error {
	o.DualWrites, o.Cutover = true, true
	return inWorld(ctx, o, o.Seed, func(w *world) error { return w.cutOver(ctx) })
}

// cutOver runs such a world.
func (w *world) cutOver(ctx context.Context) error {
	w.begin()
	for _, n := range w.workers {
		if err := n.ready(ctx); err != nil {
			return err
		}
	}
	// A comparison while no process writes ends sooner. The final one compares only later writes.
	if err := w.approach(ctx, "verify"); err != nil {
		return err
	}
	if err := w.site.locked(w.site.start); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(w.seed, 1<<48))
	for attempt := range 2 {
		if err := errors.Join(w.reshard(ctx, r, shop.name), wait(ctx, 2*time.Second)); err != nil {
			return err
		}
		out, status, err := w.startCutover(ctx)
		w.note("cutover start ends with exit status %d", status)
		switch {
		case err != nil:
			return err
		case attempt == 0 && (status != diag.ExitNo || !strings.Contains(out, notNow) || !w.site.writing()):
			return fmt.Errorf("a freeze that was refused: exit status %d, the application writes: %t\n%s", status, w.site.writing(), out)
		case attempt == 1 && (status != 0 || !strings.Contains(out, ": watching")):
			return fmt.Errorf("a switch whose answer was lost: exit status %d\n%s", status, out)
		}
	}
	for _, n := range w.workers {
		if _, err := n.get(ctx, "/readyz"); err != nil {
			return fmt.Errorf("during the watch: %w", err)
		}
	}
	// After the switch the application may write the target alone, so verify refuses.
	if out, status, err := w.operate(ctx, "verify"); err != nil || status != diag.ExitNo || !strings.Contains(out, diag.CutOver) {
		return fmt.Errorf("verify after the switch: exit status %d (%w)\n%s", status, err, out)
	}
	if err := w.over(ctx); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(w.log, "seed %d: cut over in %.0f s: hooks %s\n", w.seed, time.Since(w.began).Seconds(), strings.Join(w.site.calls, ", "))
	return nil
}

// startCutover begins a cutover and follows it. A gate may close again when a new shard is listed.
// The attempt then ends before the application was touched, and is started again.
func (w *world) startCutover(ctx context.Context) (out string, status int, err error) {
	for range 3 {
		if err := w.approach(ctx, "cutover", "check"); err != nil {
			return "", 0, err
		}
		out, status, err = w.operate(ctx, "cutover", "start", "--keep-fallback", "no", "--yes")
		if err != nil || status != diag.ExitNo || !strings.Contains(out, " is not ready: ") {
			break
		}
	}
	return out, status, err
}

// over checks the end. The workers idle, including one restarted in place of a killed one, and one
// of them watches. Replicator's metadata is removed beside them, and no worker resumes.
func (w *world) over(ctx context.Context) error {
	w.workers[0].kill()
	w.note("killed %s during the watch", w.workers[0].name)
	if err := w.workers[0].start(); err != nil {
		return err
	}
	if err := w.approach(ctx, "finalize", "--dry-run"); err != nil {
		return err
	}
	if err := w.allIdle(ctx); err != nil {
		return err
	}
	// The canaries are removed, the versions are not yet.
	switch found, err := newOracle(w.source, w.rows).compare(ctx, shop, uncounted); {
	case err != nil:
		return err
	case found.items == 0 || len(found.differences) > 0:
		return fmt.Errorf("after the switch: %d items, %s", found.items, describe([]*comparison{found}))
	}
	if err := w.approach(ctx, "finalize", "--yes"); err != nil {
		return err
	}
	for _, n := range w.workers[1:] {
		if err := errors.Join(n.stop(ctx), n.start()); err != nil {
			return err
		}
	}
	if err := w.allIdle(ctx); err != nil {
		return err
	}
	if err := w.nothingOfOurs(ctx); err != nil {
		return err
	}
	out, status, err := w.operate(ctx, "run", "--once", "--listen", "off")
	if err == nil && (status != diag.ExitNo || !strings.Contains(out, diag.CutOver)) {
		err = fmt.Errorf("run --once after finalize: exit status %d\n%s", status, out)
	}
	for _, n := range w.workers {
		err = errors.Join(err, n.stop(ctx))
	}
	return err
}

// allIdle waits until every worker reports that it is idle and ready.
func (w *world) allIdle(ctx context.Context) error {
	for _, n := range w.workers {
		if err := n.ready(ctx); err != nil {
			return err
		}
		for began := time.Now(); ; {
			text, err := n.get(ctx, "/readyz")
			if err == nil && strings.Contains(string(text), "idle") {
				break
			}
			if ended := n.unexpected(); ended != nil || time.Since(began) > cutoverLimit {
				return errors.Join(ended, fmt.Errorf("worker %s is not idle: %s (%v)", n.name, text, err))
			}
			if err := wait(ctx, 200*time.Millisecond); err != nil {
				return err
			}
		}
		w.note("%s idles", n.name)
	}
	return nil
}

// nothingOfOurs checks that the table has none of replicator's families and cells.
func (w *world) nothingOfOurs(ctx context.Context) error {
	admin, err := bigtable.NewAdminClient(ctx, project, instance, w.bigtable...)
	if err != nil {
		return err
	}
	info, err := admin.TableInfo(ctx, shop.name)
	if err != nil {
		return err
	}
	if !slices.Equal(info.Families, []string{"d"}) {
		return fmt.Errorf("after finalize the table has the families %v", info.Families)
	}
	rows := 0
	if err := w.rows.Open(shop.name).ReadRows(ctx, bigtable.InfiniteRange(""), func(row bigtable.Row) bool { rows++; return true }); err != nil {
		return err
	}
	if rows == 0 {
		return errors.New("after finalize the table is empty")
	}
	return nil
}

func (s *site) locked(do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return do()
}

// writing reports whether the application writes the source.
func (s *site) writing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// approach repeats a command until it succeeds.
func (w *world) approach(ctx context.Context, args ...string) error {
	began := time.Now()
	for {
		out, status, err := w.operate(ctx, args...)
		switch {
		case err != nil:
			return err
		case status == 0:
			w.note("%s: yes", strings.Join(args, " "))
			return nil
		case time.Since(began) > cutoverLimit:
			return fmt.Errorf("%s: exit status %d for %s\n%s", strings.Join(args, " "), status, cutoverLimit, out)
		}
		if err := wait(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
}

// operate runs a command as an operator does.
func (w *world) operate(ctx context.Context, args ...string) (out string, status int, err error) {
	n := w.workers[0]
	c := exec.CommandContext(ctx, n.program, append(args, "--config", n.config, "--allow-emulator", "--timeout", (2*cutoverLimit).String())...)
	c.Env, c.Dir = n.environment(), w.dir
	text, err := c.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil && exit.ExitCode() > 0 {
		err = nil
	}
	if c.ProcessState != nil {
		status = c.ProcessState.ExitCode()
	}
	return string(text), status, err
}
