package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// serveDemo ARGS… starts a demo with --serve and does what its quick start says: the environment variables are the script's from
// then on, and the configuration is written. The demo is interrupted when the script ends, and must end well.
func serveDemo(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("serve-demo cannot fail")
	}
	executable, err := exec.LookPath("replicator")
	ts.Check(err)
	demo := exec.Command(executable, append([]string{"demo", "--serve"}, args...)...)
	stderr, err := demo.StderrPipe()
	ts.Check(err)
	ts.Check(demo.Start())
	var rest sync.WaitGroup
	ts.Defer(func() {
		ts.Check(demo.Process.Signal(os.Interrupt))
		rest.Wait()
		ts.Check(demo.Wait())
	})
	var configuration []string
	inside, ready := false, false
	lines := bufio.NewScanner(stderr)
	for !ready && lines.Scan() {
		line := lines.Text()
		variable, exported := strings.CutPrefix(line, "export ")
		switch {
		case exported:
			name, value, _ := strings.Cut(variable, "=")
			ts.Setenv(name, value)
		case line == "END":
			ts.Check(os.WriteFile(ts.MkAbs("replicator.yaml"), []byte(strings.Join(configuration, "\n")+"\n"), 0o600))
			inside = false
		case inside:
			configuration = append(configuration, line)
		case strings.HasPrefix(line, "cat > replicator.yaml"):
			inside = true
		}
		ready = strings.HasPrefix(line, "curl ") // the last of the commands
	}
	rest.Go(func() {
		for lines.Scan() {
		}
	})
	if !ready {
		ts.Fatalf("the demo ended without a quick start")
	}
}
