package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// serveDemo ARGS… starts a demo with --serve and follows its quick start: it sets the environment
// variables for the script and writes the configuration. It checks that the page in the first line
// answers at each later line. When the script ends, it interrupts the demo, which must end with
// status 0.
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
	inside, ready, page := false, false, ""
	lines := bufio.NewScanner(stderr)
	for !ready && lines.Scan() {
		line := lines.Text()
		if page == "" {
			_, page, _ = strings.Cut(line, "status page: ")
			ts.Setenv("PAGE", page)
		}
		pageOf(ts, page)
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
		ready = strings.HasPrefix(line, "curl ") // the last command
	}
	rest.Go(func() {
		for lines.Scan() {
		}
	})
	if !ready {
		ts.Fatalf("the demo ended without a quick start")
	}
}

// pageOf reads the page of a demo.
func pageOf(ts *testscript.TestScript, url string) string {
	response, err := http.Get(url)
	ts.Check(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	ts.Check(err)
	if response.StatusCode != http.StatusOK {
		ts.Fatalf("the page: %s", response.Status)
	}
	return string(body)
}

// putIntoDemo ITEM writes an item with the quick start's AWS command, and waits until the page
// counts the change.
func putIntoDemo(ts *testscript.TestScript, _ bool, args []string) {
	rate := regexp.MustCompile(`id="table-Shop-rate" data-value="[^"]*"`)
	before := rate.FindString(pageOf(ts, ts.Getenv("PAGE")))
	dynamo := embedded{endpoint: ts.Getenv("AWS_ENDPOINT_URL_DYNAMODB")}
	ts.Check(dynamo.call("PutItem", map[string]any{"TableName": "Shop", "Item": json.RawMessage(args[0])}))
	for deadline := time.Now().Add(20 * time.Second); rate.FindString(pageOf(ts, ts.Getenv("PAGE"))) == before; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("the page still says %s", before)
		}
	}
}
