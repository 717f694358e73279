package browser

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The demo shows the page of a real worker. The page appears, follows the migration, survives the
// worker that the demo kills, and becomes stale at the end.
func TestDemo(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "replicator")
	build := exec.Command("go", "build", "-o", program, "./cmd/replicator")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	demo := exec.Command(program, "demo", "--items", "2000", "--duration", "1m", "--rate", "100", "--listen", address)
	demo.Dir, demo.Stdout, demo.Stderr = t.TempDir(), &out, &out
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- demo.Wait() }()
	t.Cleanup(func() {
		_ = demo.Process.Signal(os.Interrupt) // it may already have ended
		<-ended
		if t.Failed() {
			t.Logf("the demo said:\n%s", out.String())
		}
	})
	waitFor(t, "the page of the demo", func() bool {
		response, err := http.Get("http://" + address + "/")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	// Errors of the killed worker.
	p := open(t, "ERR_CONNECTION", "ERR_INCOMPLETE_CHUNKED", "ERR_EMPTY_RESPONSE")
	p.visit("http://" + address + "/")
	p.until("the ledger was read", `document.getElementById("at")`)
	first := p.text(`document.getElementById("at").dateTime`)
	p.until("a later reading", fmt.Sprintf(`document.getElementById("at").dateTime > %q`, first))
	p.until("changes are applied", `Number(document.getElementById("applied").dataset.value) > 0`)
	p.until("shards are drawn", `document.querySelectorAll("svg.lineage rect").length > 0`)
	p.accessible("the demo")
	if text := p.text(`document.documentElement.outerHTML`); strings.Contains(text, "order#") {
		t.Error("the page shows keys of items")
	}
	if err := demo.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.until("stale", `document.documentElement.classList.contains("stale")`)
}
