package embedded

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Lease is the workers': short, so that a part is soon taken over.
const Lease = 5 * time.Second

// Worker is a process of the program, in a folder that Configure has prepared.
type Worker struct {
	Program, Dir   string
	Source, Target string // addresses
	Name           string
	Flags          []string // of run, besides

	Process *os.Process
	Exited  chan struct{} // closed once it has ended
	starts  int

	mu      sync.Mutex
	address string // of its HTTP endpoints
}

// Configure writes the configuration that all workers share into a folder.
func Configure(dir string) error {
	text := fmt.Sprintf("version: 1\ntarget: {project: bench, instance: bench}\nstate: {lease: %s}\ntables:\n  - from: %s\n", Lease, Table)
	return errors.Join(os.WriteFile(filepath.Join(dir, "replicator.yaml"), []byte(text), 0o600), os.WriteFile(filepath.Join(dir, "aws"), nil, 0o600))
}

// Command is a command of the program with the configuration and the services.
func (w *Worker) Command(ctx context.Context, arguments ...string) *exec.Cmd {
	arguments = append(arguments, "--config", filepath.Join(w.Dir, "replicator.yaml"), "--allow-emulator")
	cmd := exec.CommandContext(ctx, w.Program, arguments...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return slices.ContainsFunc([]string{"AWS_", "REPLICATOR_", "GOOGLE_", "BIGTABLE_"}, func(prefix string) bool { return strings.HasPrefix(entry, prefix) })
	})
	empty := filepath.Join(w.Dir, "aws")
	cmd.Env = append(cmd.Env, "AWS_CONFIG_FILE="+empty, "AWS_SHARED_CREDENTIALS_FILE="+empty, "AWS_EC2_METADATA_DISABLED=true",
		"AWS_ENDPOINT_URL_DYNAMODB=http://"+w.Source, "AWS_ENDPOINT_URL_DYNAMODB_STREAMS=http://"+w.Source, "AWS_REGION="+Region,
		"AWS_ACCESS_KEY_ID=bench", "AWS_SECRET_ACCESS_KEY=bench", "BIGTABLE_EMULATOR_HOST="+w.Target)
	return cmd
}

// Start starts the program's run; it does not wait for it.
func (w *Worker) Start() error {
	w.starts++
	cmd := w.Command(context.Background(), append([]string{"run", "--listen", "127.0.0.1:0", "--log-format", "json"}, w.Flags...)...)
	log, err := os.Create(filepath.Join(w.Dir, fmt.Sprintf("worker-%s-%d.log", w.Name, w.starts)))
	if err != nil {
		return err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	w.mu.Lock()
	w.address = ""
	w.mu.Unlock()
	exited := make(chan struct{})
	w.Process, w.Exited = cmd.Process, exited
	go func() {
		lines := bufio.NewScanner(stderr)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			_, _ = log.WriteString(lines.Text() + "\n")
			var entry struct{ Message, Address string }
			if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Address != "" {
				w.mu.Lock()
				w.address = entry.Address
				w.mu.Unlock()
			}
		}
		_ = cmd.Wait()
		_ = log.Close()
		close(exited)
	}()
	return nil
}

// Address is that of its HTTP endpoints; "" while it does not listen yet.
func (w *Worker) Address() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.address
}

// Kill ends the process at once.
func (w *Worker) Kill() {
	_ = w.Process.Kill()
	<-w.Exited
}

// Peak is the most memory that a process had resident, in bytes; 0 where the system does not say.
func Peak(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kilobytes, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kilobytes << 10
		}
	}
	return 0
}

// Used is the processor time that a running process has used; 0 where the system does not say.
func Used(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	const ticks = 100                                                         // a second, on every Linux
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // from the third field on
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * time.Second / ticks
}

// Copy is how far the copy of the table is, as the ledger has it.
type Copy struct {
	State string `json:"state"` // not_started, running, done
	Items int    `json:"items"`
}

// Done: every part was copied.
func (c Copy) Done() bool { return c.State == "done" }

// Copied asks the worker how far the copy is.
func (w *Worker) Copied() (Copy, error) {
	address := w.Address()
	if address == "" {
		return Copy{}, fmt.Errorf("worker %s does not listen yet", w.Name)
	}
	client := http.Client{Timeout: time.Second} // it may be frozen
	response, err := client.Get("http://" + address + "/api/v1/status")
	if err != nil {
		return Copy{}, err
	}
	defer response.Body.Close()
	var status struct {
		Tables []struct {
			Copy Copy `json:"copy"`
		} `json:"tables"`
	}
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
		return Copy{}, err
	}
	if len(status.Tables) != 1 {
		return Copy{}, fmt.Errorf("worker %s knows of %d tables", w.Name, len(status.Tables))
	}
	return status.Tables[0].Copy, nil
}
