package main

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
)

// A worker serves the page. The page's event stream shows the tables as soon as the ledger was
// read. The worker can end although the page is open.
func TestTheWorkersPage(t *testing.T) {
	cmd, address := startRun(t, servicesWithOrders(t))
	response, err := http.Get("http://" + address + "/")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK || !strings.Contains(response.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("%s, policy %q", response.Status, response.Header.Get("Content-Security-Policy"))
	}
	follows, err := http.Get("http://" + address + "/api/v1/page")
	if err != nil {
		t.Fatal(err)
	}
	defer follows.Body.Close()
	lines, shown := bufio.NewScanner(follows.Body), false
	for !shown && lines.Scan() {
		shown = strings.Contains(lines.Text(), `id="table-Orders"`)
	}
	if !shown {
		t.Error("the page never shows the table")
	}
	stopInOrder(t, cmd)
}
