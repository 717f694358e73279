package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// parkedCounts returns how many items each worker counts as parked, in status and, if requested, in
// its metrics, which are updated every five seconds.
func parkedCounts(t *testing.T, addresses []string, metrics bool) string {
	t.Helper()
	var counts []string
	for _, address := range addresses {
		var document struct {
			Tables []struct{ Parked int }
		}
		if err := json.Unmarshal(fetch(t, address+"/api/v1/status"), &document); err != nil || len(document.Tables) != 1 {
			t.Fatalf("%+v, %v", document, err)
		}
		if !metrics {
			counts = append(counts, fmt.Sprint(document.Tables[0].Parked))
			continue
		}
		metric := "none"
		for line := range strings.Lines(string(fetch(t, address+"/metrics"))) {
			if rest, ok := strings.CutPrefix(line, `replicator_items_parked{pipeline="default",source_table="Orders"} `); ok {
				metric = strings.TrimSpace(rest)
			}
		}
		counts = append(counts, fmt.Sprintf("%d/%s", document.Tables[0].Parked, metric))
	}
	return strings.Join(counts, " ")
}

func fetch(t *testing.T, url string) []byte {
	t.Helper()
	response, err := http.Get("http://" + url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// Two workers count the same parked, resolved, dropped and retried items, because both read the
// state table.
func TestParkedItemsAreCountedAlikeByTwoWorkers(t *testing.T) {
	t.Parallel()
	s := servicesWithOrders(t)
	_, one := startRun(t, s)
	_, two := startRun(t, s)
	workers := []string{one, two}
	expect := func(when, want string) {
		t.Helper()
		got, deadline := "", time.Now().Add(time.Minute)
		for time.Now().Before(deadline) {
			if got = parkedCounts(t, workers, strings.Contains(want, "/")); got == want {
				return
			}
			time.Sleep(50 * time.Millisecond) // between polls for the count
		}
		t.Fatalf("%s: status/metric of the workers %s, want %s", when, got, want)
	}
	item := func(key string, attribute string) {
		t.Helper()
		err := s.call("PutItem", map[string]any{"TableName": "Orders", "Item": map[string]any{
			"pk": map[string]string{"S": key}, "sk": map[string]string{"S": "1"}, attribute: map[string]string{"S": "x"}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	decide := func(want int, arguments ...string) {
		t.Helper()
		cmd := exec.Command("replicator", append([]string{"parked"}, append(arguments, "-c", writeTestConfiguration(t), "--allow-emulator")...)...)
		cmd.Env = append(os.Environ(), s.environment()...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != want {
			t.Fatalf("%v: %v\n%s", arguments, err, out)
		}
	}
	long := strings.Repeat("n", 17<<10)
	for _, key := range []string{"healed", "dropped", "retried"} {
		item(key, long)
	}
	expect("three items are parked", "3/3 3/3")
	item("healed", "colour")
	expect("one is healed by its next change", "2 2")
	decide(0, "drop", "--table", "Orders", "--key", `{"pk":"dropped","sk":"1"}`, "--yes")
	expect("one is dropped", "1 1")
	decide(3, "retry", "--all")
	expect("one is retried in vain", "1 1")
	item("retried", "colour")
	decide(0, "retry", "--all") // whichever is faster, the stream or the retry
	expect("all are decided", "0/0 0/0")
}
