package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/hook"
)

const (
	// cutoverLimit is the maximum duration of each part of a cutover.
	cutoverLimit = 2 * time.Minute
	// missedFor is how long the demo watches for late writers after the switch. A real cutover
	// watches for a day.
	missedFor = 5 * time.Second
)

// site runs the application of a demo with Cutover. It also answers the calls of the hooks.
type site struct {
	d       *demo
	address string

	mu       sync.Mutex
	process  *exec.Cmd // process of the application; nil if it does not run
	told     strings.Builder
	calls    int // number of hook calls
	switched bool
}

// openSite serves the hooks until the returned function is called.
func (d *demo) openSite() (closing func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d.site = &site{d: d, address: listener.Addr().String()}
	serving := &http.Server{Handler: d.site, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = serving.Serve(listener) }() // Close ends it, and its error does not matter
	return func() { _ = serving.Close(); d.site.kill() }, nil
}

// configuration returns the configuration section for a cutover.
func (s *site) configuration() string {
	text := fmt.Sprintf("cutover:\n  ready_when: {lag_held_for: 0s}\n  listing_bound: 1s\n  freeze_at_most: 20s\n  watch_for: %s\n  hooks:\n", missedFor)
	for _, name := range cutover.HookNames {
		text += fmt.Sprintf("    %s: http://%s/\n", name, s.address)
	}
	return text
}

// ServeHTTP implements the hooks. Each hook may be called several times.
func (s *site) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	if request.Header.Get(hook.ProbeHeader) != "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	name := request.Header.Get(hook.HookHeader)
	s.d.say("hook %s, token %s", name, request.Header.Get(hook.TokenHeader))
	var err error
	switch {
	case name == cutover.FreezeWrites:
		err = s.stop()
	case name == cutover.UnfreezeWrites && s.process == nil && !s.switched:
		err = s.start()
	case name == cutover.Switch && s.process != nil:
		err = errors.New("the application still writes to the source")
	case name == cutover.Switch && !s.switched:
		s.switched = true
		s.d.say("the application is switched: servers started from now on use only Bigtable")
	}
	if err != nil {
		http.Error(answer, err.Error(), http.StatusInternalServerError)
	}
}

// start starts the application.
func (s *site) start() error {
	c := s.d.application(context.Background(), s.d.life())
	s.told.Reset()
	c.Stdout, c.Stderr = &s.told, &s.told
	if err := c.Start(); err != nil {
		return err
	}
	s.process = c
	s.d.describeApplication(c)
	return nil
}

// stop stops the application. The application first finishes its in-flight writes.
func (s *site) stop() error {
	if s.process == nil {
		return nil
	}
	if err := s.process.Process.Signal(os.Interrupt); err != nil {
		_ = s.process.Process.Kill() // not every system can interrupt a process
	}
	_ = s.process.Wait() // its exit status only shows how it was stopped
	s.process = nil
	s.d.say("the application has stopped writing: %s", strings.TrimSpace(s.told.String()))
	return nil
}

func (s *site) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
		s.process = nil
	}
}

// asked reports whether any hook was called.
func (s *site) asked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls > 0
}

func (s *site) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.start()
}

// beforeLive compares both databases, as an operator does before a cutover.
func (d *demo) beforeLive(ctx context.Context) error {
	d.say("replicator verify: a cutover needs a clean and recent result")
	return d.operate(ctx, "verify")
}

// cutOver cuts the table over, and removes replicator's metadata from the target.
func (d *demo) cutOver(ctx context.Context) (c Comparison, err error) {
	d.services.dynamo.ClearFaults()
	if err := d.begin(ctx); err != nil {
		return c, err
	}
	d.say("the stream is watched for late writers for %s; then the canaries are removed", missedFor)
	// finalize is refused while the watch is running or a worker is not idle.
	if err := d.insist(ctx, "finalize", "--dry-run"); err != nil {
		return c, err
	}
	if err := d.healthy(); err != nil {
		return c, err
	}
	for _, w := range d.running() {
		d.say("worker %s stays up idle: the tables are cut over", w.name)
	}
	// The comparison must precede finalize, because finalize removes the versions that it needs.
	if c, err = d.compare(ctx); err != nil {
		return c, err
	}
	if !c.Identical() {
		return c, nil
	}
	d.say("both stores compared cell by cell: %d items in the source, each in its row", c.Items)
	return c, d.leave(ctx)
}

// begin starts a cutover, and follows it to the switch. A gate may close again, for example because
// a shard was just listed. The attempt then ends before the application is stopped, and another
// attempt begins.
func (d *demo) begin(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		select { // wait a little: the stream has just changed
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(settleTime):
		}
		if err := d.insist(ctx, "cutover", "check"); err != nil {
			return err
		}
		d.say("replicator cutover start --keep-fallback no --yes")
		err := d.operate(ctx, "cutover", "start", "--keep-fallback", "no", "--yes")
		var exit *exec.ExitError
		if err == nil || attempt == 3 || d.site.asked() || !errors.As(err, &exit) || exit.ExitCode() != diag.ExitNo {
			return err
		}
	}
}

// leave writes the evidence and removes replicator's metadata. The evidence is kept after the demo.
func (d *demo) leave(ctx context.Context) error {
	kept, err := os.MkdirTemp("", "replicator-evidence-")
	if err != nil {
		return err
	}
	evidence := filepath.Join(kept, "cutover")
	if err := d.operate(ctx, "cutover", "evidence", evidence); err != nil {
		return err
	}
	d.say("evidence kept in: %s", filepath.Join(evidence, "index.html"))
	d.say("replicator finalize --yes")
	if err := d.operate(ctx, "finalize", "--yes"); err != nil {
		return err
	}
	return d.stopAll()
}

// insist repeats a command until it succeeds, and discards its output.
func (d *demo) insist(ctx context.Context, args ...string) error {
	for deadline := time.Now().Add(cutoverLimit); ; {
		out, err := d.command(ctx, args...).CombinedOutput()
		var exit *exec.ExitError
		switch {
		case err == nil:
			return nil
		case !errors.As(err, &exit) || ctx.Err() != nil:
			return errors.Join(err, context.Cause(ctx))
		case exit.ExitCode() != diag.ExitNo || time.Now().After(deadline):
			return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}

// operate runs a command as an operator does, and adds its output to the narration.
func (d *demo) operate(ctx context.Context, args ...string) error {
	c := d.command(ctx, args...)
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	c.Stderr = c.Stdout // stdout and stderr go to one stream, as in a terminal
	if err := c.Start(); err != nil {
		return err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if text := lines.Text(); strings.TrimSpace(text) != "" {
			d.say("  %s", text)
		}
	}
	if err := c.Wait(); err != nil {
		return errors.Join(fmt.Errorf("replicator %s: %w", strings.Join(args, " "), err), context.Cause(ctx))
	}
	return nil
}

// command returns a command of this program.
func (d *demo) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, d.Executable, append(args, "--config", d.config, "--allow-emulator", "--timeout", cutoverLimit.String())...)
	c.Env, c.Dir = childEnvironment(d.Environment, d.dir, d.services), d.dir
	return c
}
