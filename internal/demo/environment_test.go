package demo

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// The demo's own clients use its own services, whatever the environment says.
func TestTheEnvironmentDoesNotDivertTheDemo(t *testing.T) {
	for _, name := range []string{"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_DYNAMODB_STREAMS"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	t.Setenv("BIGTABLE_EMULATOR_HOST", "127.0.0.1:1")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := startServices(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.rows.Ping(ctx); err != nil {
		t.Errorf("the rows for the comparison: %v", err)
	}
	if err := makeTable(ctx, s.writes, 1, 1); err != nil {
		t.Errorf("the application: %v", err)
	}
	if _, err := s.reads.Describe(ctx, tableName); err != nil {
		t.Errorf("the items for the comparison: %v", err)
	}
}

// A failed demo keeps its logs, and the output names them. An interrupted demo removes them.
func TestTheLogsOfAFailedDemoAreKept(t *testing.T) {
	failing, err := exec.LookPath("false")
	if err != nil {
		t.Fatal(err)
	}
	for _, interrupted := range []bool{false, true} {
		t.Setenv("TMPDIR", t.TempDir())
		ctx, cancel := context.WithCancel(t.Context())
		var narration bytes.Buffer
		stopping := narrated{&narration, func() {
			if interrupted {
				cancel()
			}
		}}
		_, err := Run(ctx, Options{Items: 1, Duration: time.Second, Rate: 1, Executable: failing, Log: stopping})
		cancel()
		if err == nil {
			t.Fatal("a demo without workers succeeded")
		}
		named := regexp.MustCompile(`kept: (\S+)`).FindStringSubmatch(narration.String())
		left, _ := filepath.Glob(filepath.Join(os.TempDir(), "replicator-demo-*"))
		if kept := !interrupted; (named != nil) != kept || (len(left) == 1) != kept {
			t.Fatalf("interrupted %v: %d folders left, and this was told:\n%s", interrupted, len(left), &narration)
		}
		if named != nil {
			if logs, _ := filepath.Glob(named[1]); len(logs) == 0 {
				t.Errorf("%s names no log", named[1])
			}
		}
	}
}

// narrated notices that a worker started.
type narrated struct {
	*bytes.Buffer
	started func()
}

func (n narrated) Write(text []byte) (int, error) {
	if bytes.Contains(text, []byte("worker b started")) {
		n.started()
	}
	return n.Buffer.Write(text)
}
