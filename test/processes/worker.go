package processes

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
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
)

// The longest waits for a worker.
const (
	startLimit = 30 * time.Second // until it listens: it probes both ends, on a busy machine
	stopLimit  = 30 * time.Second // for a clean stop: its grace is 20 s
	// lifeTime ends workers whose test was killed before it could end them. It exceeds the duration
	// of any test.
	lifeTime = 30 * time.Minute
)

// worker is one instance of the program, with its own network to each end. Its process is replaced
// repeatedly.
type worker struct {
	name           string // a, b, c
	source, target *Proxy
	queue          *Proxy   // the network to Pub/Sub; nil if there is none
	command        []string // of the program
	program, dir   string
	config         string
	life           time.Duration // of each process
	window         time.Duration // signature window of the source; 0 if there is no way back

	mu      sync.Mutex
	starts  int
	process *process
}

// process is one run of the program.
type process struct {
	cmd       *exec.Cmd
	log       string        // path of its stderr
	listening chan struct{} // closed once address is set
	address   string        // of its HTTP endpoints
	exited    chan struct{} // closed once err is set
	started   time.Time
	err       error
	doomed    bool // its end is expected, because it was stopped or killed
}

// environment directs the program to this worker's proxies, and away from any cloud.
func (w *worker) environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		for _, prefix := range []string{"AWS_", "REPLICATOR_", "GOOGLE_", "BIGTABLE_", "PUBSUB_"} {
			if strings.HasPrefix(entry, prefix) {
				return true
			}
		}
		return false
	})
	empty := filepath.Join(w.dir, "aws")
	endpoint := "http://" + w.source.Address()
	if w.window > 0 {
		env = append(env, "REPLICATOR_EMULATOR_WINDOW="+w.window.String())
	}
	if w.queue != nil {
		env = append(env, "PUBSUB_EMULATOR_HOST="+w.queue.Address())
	}
	return append(env, "AWS_CONFIG_FILE="+empty, "AWS_SHARED_CREDENTIALS_FILE="+empty, "AWS_EC2_METADATA_DISABLED=true",
		"AWS_ENDPOINT_URL_DYNAMODB="+endpoint, "AWS_ENDPOINT_URL_DYNAMODB_STREAMS="+endpoint, "AWS_REGION="+region,
		"AWS_ACCESS_KEY_ID=processes", "AWS_SECRET_ACCESS_KEY=processes", "BIGTABLE_EMULATOR_HOST="+w.target.Address())
}

// start starts the program without waiting for it.
func (w *worker) start() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.starts++
	p := &process{
		log:       filepath.Join(w.dir, fmt.Sprintf("worker-%s-%d.log", w.name, w.starts)),
		listening: make(chan struct{}), exited: make(chan struct{}), started: time.Now(),
	}
	p.cmd = exec.Command(w.program, append(slices.Clone(w.command), "--config", w.config, "--allow-emulator", "--listen", "127.0.0.1:0",
		"--log-format", "json", "--log-level", "debug", "--timeout", w.life.String())...)
	p.cmd.Env, p.cmd.Dir = w.environment(), w.dir
	file, err := os.Create(p.log)
	if err != nil {
		return err
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	if err := p.cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("start worker %s: %w", w.name, err), file.Close())
	}
	w.process = p
	go func() {
		p.follow(stderr, file)
		_ = file.Close()
		p.err = p.cmd.Wait() // after all of stderr is read, as os/exec requires
		close(p.exited)
	}()
	return nil
}

// follow copies the program's log to a file, and finds the address of its HTTP endpoints in it.
func (p *process) follow(stderr io.Reader, file io.Writer) {
	lines := bufio.NewReader(stderr)
	for told := false; ; {
		line, err := lines.ReadBytes('\n')
		_, _ = file.Write(line)
		var entry map[string]any
		if !told && json.Unmarshal(line, &entry) == nil && entry["message"] == admin.ListeningMessage {
			p.address, told = fmt.Sprint(entry[admin.KeyAddress]), true
			close(p.listening)
		}
		if err != nil {
			return
		}
	}
}

// current returns the running process, or the last one.
func (w *worker) current() *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.process
}

// ready waits until the program has reached both ends and begins to work.
func (w *worker) ready(ctx context.Context) error {
	p := w.current()
	select {
	case <-p.listening:
		return nil
	case <-p.exited:
		return w.ended(p)
	case <-time.After(startLimit):
		return fmt.Errorf("worker %s is not ready after %s; the end of %s:\n%s", w.name, startLimit, p.log, tail(p.log, 15))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// doom marks the running process as expected to end, and returns it.
func (w *worker) doom() *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.process.doomed = true
	return w.process
}

// kill ends the program immediately, as a crash does. It may be frozen.
func (w *worker) kill() {
	p := w.doom()
	_ = p.cmd.Process.Kill() // it may already have ended
	<-p.exited
}

// stop asks the program to end, and waits until it has. A clean stop has exit status 0.
func (w *worker) stop(ctx context.Context) error {
	if err := w.ready(ctx); err != nil { // before that it cannot stop cleanly
		return err
	}
	p := w.doom()
	if err := terminate(p.cmd.Process); err != nil {
		return err
	}
	select {
	case <-p.exited:
	case <-time.After(stopLimit):
		return fmt.Errorf("worker %s did not stop within %s; the end of %s:\n%s", w.name, stopLimit, p.log, tail(p.log, 15))
	}
	if p.err != nil {
		return w.ended(p)
	}
	return nil
}

// unexpected returns an error if the program ended without being asked to.
func (w *worker) unexpected() error {
	w.mu.Lock()
	p := w.process
	doomed := p.doomed
	w.mu.Unlock()
	if doomed {
		return nil
	}
	select {
	case <-p.exited:
		return w.ended(p)
	default:
		return nil
	}
}

func (w *worker) ended(p *process) error {
	return fmt.Errorf("worker %s ended (%v); the end of %s:\n%s", w.name, p.err, p.log, tail(p.log, 15))
}

// tableStatus is the part of a table's status that the tests read.
type tableStatus struct {
	Source    string  `json:"source"`
	Phase     string  `json:"phase"`
	Behind    *uint64 `json:"behind"` // messages of a topic that are not confirmed as applied; null without appliers
	NeedsLoad bool    `json:"needs_load"`
	Reason    *string `json:"needs_load_reason"`
	Gaps      int     `json:"gaps"`
	Parked    int     `json:"parked"`
	Copy      struct {
		State string `json:"state"`
	} `json:"copy"`
}

// status returns the program's table status. It reads the ledger, so it covers all workers.
func (w *worker) status(ctx context.Context) ([]tableStatus, error) {
	body, err := w.get(ctx, "/api/v1/status")
	if err != nil {
		return nil, err
	}
	var status struct {
		Tables []tableStatus `json:"tables"`
	}
	if err := json.Unmarshal(body, &status); err != nil {
		return nil, fmt.Errorf("status of worker %s: %w", w.name, err)
	}
	return status.Tables, nil
}

// leases returns how many leases the program holds, from its metrics.
func (w *worker) leases(ctx context.Context) (int, error) {
	found, err := w.metrics(ctx)
	if err != nil {
		return 0, err
	}
	n, ok := found["replicator_leases_held"]
	if !ok {
		return 0, fmt.Errorf("the metrics of worker %s do not tell its leases", w.name)
	}
	return int(n), nil
}

// sample returns the program's resources and its process's age, or false while it is being
// replaced.
func (w *worker) sample(ctx context.Context) (sample, time.Duration, bool) {
	p := w.current()
	select {
	case <-p.listening:
	default:
		return sample{}, 0, false
	}
	found, err := w.metrics(ctx)
	if err != nil {
		return sample{}, 0, false // watch finds a worker that ended by itself
	}
	var s sample
	for m := range measures {
		s.values[m] = found[measured[m].metric]
	}
	return s, time.Since(p.started), true
}

// metrics returns the program's metrics that have no label except that of the pipeline.
func (w *worker) metrics(ctx context.Context) (map[string]float64, error) {
	body, err := w.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	found := map[string]float64{}
	for line := range strings.Lines(string(body)) {
		series, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, labels, _ := strings.Cut(series, "{")
		if value, err := strconv.ParseFloat(text, 64); err == nil && !strings.Contains(labels, ",") {
			found[name] = value
		}
	}
	return found, nil
}

// get reads a document of the program, once it listens.
func (w *worker) get(ctx context.Context, path string) ([]byte, error) {
	if err := w.ready(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 25*time.Second) // the program limits its status to 20 s
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.current().address+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("worker %s: %s: %s", w.name, path, response.Status)
	}
	return body, err
}
