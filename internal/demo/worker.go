package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
)

// stopTime is the maximum duration of a worker's clean stop. After that time the worker is killed.
const stopTime = 25 * time.Second

// interruptedStatus is the exit status of a run that was interrupted and stopped cleanly.
const interruptedStatus = 130

// worker is one process of the program, run as an operator would run it.
type worker struct {
	name   string // a, b, and so on
	listen string // the requested address
	cmd    *exec.Cmd
	log    string // path of the file with the worker's stderr

	mu      sync.Mutex
	address string // address of its HTTP endpoints, once its log shows it
	exited  chan struct{}
	err     error // result of the process
	ended   bool  // whether the demo ended it
	last    sample
}

// logName is the name of a worker's log.
func logName(worker string) string { return "worker-" + worker + ".log" }

// anyPort lets the system choose a port.
const anyPort = "127.0.0.1:0"

// startWorker starts `run`, or the given command instead. It finds the worker's address in the log.
// The worker ends by itself after life, even if the demo was killed.
func startWorker(command []string, name, listen, executable, dir, configPath string, env []string, life time.Duration) (*worker, error) {
	w := &worker{name: name, listen: listen, log: filepath.Join(dir, logName(name)), exited: make(chan struct{})}
	w.cmd = exec.Command(executable, append(command, "--config", configPath, "--allow-emulator", "--listen", listen,
		"--log-format", "json", "--log-level", "info", "--timeout", life.String())...)
	w.cmd.Env = env
	w.cmd.Dir = dir
	file, err := os.Create(w.log)
	if err != nil {
		return nil, err
	}
	stderr, err := w.cmd.StderrPipe()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if err := w.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start worker %s: %w", name, err), file.Close())
	}
	go func() {
		w.follow(stderr, file)
		_ = file.Close()
		w.err = w.cmd.Wait() // exec requires that all of stderr is read first
		close(w.exited)
	}()
	return w, nil
}

// follow copies the worker's log to a file and looks for its address.
func (w *worker) follow(stderr io.Reader, file io.Writer) {
	lines := bufio.NewReader(stderr)
	for {
		line, err := lines.ReadBytes('\n')
		_, _ = file.Write(line)
		var entry map[string]any
		if json.Unmarshal(line, &entry) == nil && entry["message"] == admin.ListeningMessage {
			if address, ok := entry[admin.KeyAddress].(string); ok {
				w.mu.Lock()
				w.address = address
				w.mu.Unlock()
			}
		}
		if err != nil {
			return
		}
	}
}

// ending records that the demo is about to end the process.
func (w *worker) ending() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
}

// kill ends the process immediately, like a crash.
func (w *worker) kill() {
	w.ending()
	_ = w.cmd.Process.Kill() // it may have ended before
	<-w.exited
}

// stop asks the process to end and waits for it.
func (w *worker) stop() error {
	w.ending()
	if err := w.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		w.kill() // not every system can interrupt a process
		return nil
	}
	select {
	case <-w.exited:
		if code := w.cmd.ProcessState.ExitCode(); code != interruptedStatus {
			return fmt.Errorf("worker %s stopped with exit status %d; the end of its log:\n%s", w.name, code, tail(w.log, 15))
		}
		return nil
	case <-time.After(stopTime):
		w.kill()
		return fmt.Errorf("worker %s did not stop within %s", w.name, stopTime)
	}
}

// gone reports whether the process has ended.
func (w *worker) gone() bool {
	select {
	case <-w.exited:
		return true
	default:
		return false
	}
}

// unexpected returns an error if the worker has ended although the demo did not end it.
func (w *worker) unexpected() error {
	if !w.gone() {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return nil
	}
	return fmt.Errorf("worker %s ended unexpectedly (%v); the end of its log:\n%s", w.name, w.err, tail(w.log, 15))
}

// tail returns the last lines of a file.
func tail(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// sample holds a worker's metrics at one moment.
type sample struct {
	copied  float64 // number of copied items
	applied float64 // number of applied changes
	leases  float64
}

// observe reads the worker's metrics. A worker that is starting or has ended does not answer. In
// that case it returns the worker's last metrics, with no leases.
func (w *worker) observe(ctx context.Context) sample {
	w.mu.Lock()
	address, s := w.address, w.last
	w.mu.Unlock()
	s.leases = 0
	if address == "" {
		return s
	}
	body, err := get(ctx, "http://"+address+"/metrics")
	if err != nil {
		return s
	}
	s = sample{}
	for line := range strings.Lines(body) {
		name, value, ok := metric(line)
		if !ok {
			continue
		}
		switch name {
		case "replicator_backfill_items_copied_total":
			s.copied += value
		case "replicator_changes_applied_total":
			s.applied += value
		case "replicator_leases_held":
			s.leases += value
		}
	}
	w.mu.Lock()
	w.last = s
	w.mu.Unlock()
	return s
}

// metric parses a line of Prometheus' text format. The program's series have no spaces in the
// values of their labels.
func metric(line string) (name string, value float64, ok bool) {
	series, text, found := strings.Cut(strings.TrimSpace(line), " ")
	if !found || strings.HasPrefix(series, "#") {
		return "", 0, false
	}
	name, _, _ = strings.Cut(series, "{")
	value, err := strconv.ParseFloat(text, 64)
	return name, value, err == nil
}

// progress is the table's status as one worker reports it. The worker reads the status from the
// ledger, so it covers all workers.
type progress struct {
	Copy struct {
		State string `json:"state"`
	} `json:"copy"`
	Lag *float64 `json:"lag_seconds"` // nil if unknown
}

// status reads the state of the table from the worker; false if it does not answer.
func (w *worker) status(ctx context.Context) (progress, bool) {
	w.mu.Lock()
	address := w.address
	w.mu.Unlock()
	if address == "" {
		return progress{}, false
	}
	body, err := get(ctx, "http://"+address+"/api/v1/status")
	if err != nil {
		return progress{}, false
	}
	var status struct {
		Tables []progress `json:"tables"`
	}
	if json.Unmarshal([]byte(body), &status) != nil || len(status.Tables) != 1 {
		return progress{}, false
	}
	return status.Tables[0], true
}

// get reads a document of a worker.
func get(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return string(body), err
}
