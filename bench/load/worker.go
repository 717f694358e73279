package main

import (
	"bufio"
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

// lease is the workers': short, so that a part is soon taken over.
const lease = 5 * time.Second

// worker is a process of the program.
type worker struct {
	program, dir, source, target string
	name                         string
	starts                       int

	cmd    *exec.Cmd
	exited chan struct{}

	mu      sync.Mutex
	address string // of its HTTP endpoints
}

// configure writes the configuration that all workers share.
func configure(dir string) error {
	text := fmt.Sprintf("version: 1\ntarget: {project: bench, instance: bench}\nstate: {lease: %s}\ntables:\n  - from: %s\n", lease, table)
	return errors.Join(os.WriteFile(filepath.Join(dir, "replicator.yaml"), []byte(text), 0o600), os.WriteFile(filepath.Join(dir, "aws"), nil, 0o600))
}

// start starts the program; it does not wait for it.
func (w *worker) start() error {
	w.starts++
	cmd := exec.Command(w.program, "run", "--config", filepath.Join(w.dir, "replicator.yaml"), "--allow-emulator", "--listen", "127.0.0.1:0", "--log-format", "json")
	cmd.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return slices.ContainsFunc([]string{"AWS_", "REPLICATOR_", "GOOGLE_", "BIGTABLE_"}, func(prefix string) bool { return strings.HasPrefix(entry, prefix) })
	})
	empty := filepath.Join(w.dir, "aws")
	cmd.Env = append(cmd.Env, "AWS_CONFIG_FILE="+empty, "AWS_SHARED_CREDENTIALS_FILE="+empty, "AWS_EC2_METADATA_DISABLED=true",
		"AWS_ENDPOINT_URL_DYNAMODB=http://"+w.source, "AWS_ENDPOINT_URL_DYNAMODB_STREAMS=http://"+w.source, "AWS_REGION="+region,
		"AWS_ACCESS_KEY_ID=bench", "AWS_SECRET_ACCESS_KEY=bench", "BIGTABLE_EMULATOR_HOST="+w.target)
	log, err := os.Create(filepath.Join(w.dir, fmt.Sprintf("worker-%s-%d.log", w.name, w.starts)))
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
	w.cmd, w.exited = cmd, exited
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

// kill ends the process at once.
func (w *worker) kill() {
	_ = w.cmd.Process.Kill()
	<-w.exited
}

// peak is the most memory that the process had resident, in bytes; 0 where the system does not say.
func (w *worker) peak() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.cmd.Process.Pid))
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

// copied asks the worker whether the copy is done, which it reads from the ledger.
func (w *worker) copied() (done bool, err error) {
	w.mu.Lock()
	address := w.address
	w.mu.Unlock()
	if address == "" {
		return false, fmt.Errorf("worker %s does not listen yet", w.name)
	}
	response, err := http.Get("http://" + address + "/api/v1/status")
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	var status struct {
		Tables []struct {
			NeedsLoad bool `json:"needs_load"`
			Copy      struct {
				State string `json:"state"`
			} `json:"copy"`
		} `json:"tables"`
	}
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
		return false, err
	}
	return len(status.Tables) == 1 && status.Tables[0].Copy.State == "done", nil
}
