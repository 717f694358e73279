package demo

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The first line of a demo names the page. The page exists before any worker, shows the table once
// the ledger was read, and ends with the demo.
func TestThePageComesFirst(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := startServices(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	var narration bytes.Buffer
	d := &demo{Options: Options{Log: &narration, Environment: append(os.Environ(), "REPLICATOR_NAME=another")}, dir: t.TempDir(), services: s, began: time.Now()}
	if d.config, err = d.writeConfiguration(d.dir); err != nil {
		t.Fatal(err)
	}
	closing, err := d.openPage()
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^ +\d\.\ds  status page: http://127\.0\.0\.1:\d+/\n$`).MatchString(narration.String()) || !strings.Contains(narration.String(), d.url) {
		t.Errorf("the narration begins with %q", narration.String())
	}
	for path, want := range map[string]string{"": "<h1>replicator</h1>", "api/v1/status": `"name": "default"`} {
		if body, err := get(ctx, d.url+path); err != nil || !strings.Contains(body, want) {
			t.Errorf("/%s: %v: no %s in %s", path, err, want, body)
		}
	}
	if !follows(ctx, t, d.url+"api/v1/page", `id="table-`+tableName+`"`) {
		t.Error("the page does not come to show the table")
	}
	closing()
	if body, err := get(ctx, d.url); err == nil {
		t.Errorf("after the demo the page says %s", body)
	}
}

// follows reads a stream of events until one has the text.
func follows(ctx context.Context, t *testing.T, url, text string) bool {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if strings.Contains(lines.Text(), text) {
			return true
		}
	}
	return false
}
