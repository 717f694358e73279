package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	stdlog "log"
	"log/slog"
	"strings"
	"testing"

	"github.com/aws/smithy-go/logging"
	"google.golang.org/grpc/grpclog"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// records reads lines of which each must be a document.
func records(t *testing.T, text string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range strings.Lines(text) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		out = append(out, record)
	}
	return out
}

func logTo(t *testing.T, out *bytes.Buffer) *slog.Logger {
	t.Helper()
	log, err := admin.Log{Format: "json", Level: "info"}.New(out)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// Messages of the vendors' clients and their libraries are part of the log.
func TestClientsSpeakInRecords(t *testing.T) {
	var text bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	Clients(logTo(t, &text))
	AWS(nil).Logf(logging.Warn, "a %s of\nthe SDK", "warning")
	AWS(nil).Logf(logging.Debug, "nothing to read")
	var own bytes.Buffer
	AWS(logTo(t, &own)).Logf(logging.Warn, "of a program")
	if found := records(t, own.String()); len(found) != 1 || found[0]["message"] != "of a program" {
		t.Errorf("a program's own log has %s", own.String())
	}
	grpclog.Error("an error of gRPC")
	grpclog.Info("nothing to read")
	stdlog.Print("a line of a library")
	found := records(t, text.String())
	for i, want := range []string{"a warning of\nthe SDK", "an error of gRPC", "a line of a library"} {
		if i >= len(found) || !strings.Contains(found[i]["message"].(string), want) {
			t.Errorf("record %d is not %q: %s", i, want, text.String())
		}
	}
	if len(found) != 3 {
		t.Errorf("%d records: %s", len(found), text.String())
	}
}

// Each line is a record, however it is written. Empty lines are not.
func TestLines(t *testing.T) {
	var text bytes.Buffer
	w := Lines(logTo(t, &text))
	for _, part := range []string{"✓ ta", "ble Orders\n\n  fix", "  \"it\"\n", "begun"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Error(n, err)
		}
	}
	found := records(t, text.String())
	if len(found) != 2 || found[0]["message"] != "✓ table Orders" || found[1]["message"] != `fix  "it"` || found[0]["severity"] != "INFO" {
		t.Errorf("%s", text.String())
	}
}

// Findings have the same facts in both formats: at most 50 of them, and the number of the others.
func TestFindings(t *testing.T) {
	var found diag.List
	for i := range 60 {
		found = append(found, &diag.Error{Code: diag.UnknownKey, What: fmt.Sprintf("key %d", i), Warning: i < 2, Cause: "c", Fix: "f\ng",
			Pos: diag.Position{File: "r.yaml", Line: i + 1, Column: 1}})
	}
	var text bytes.Buffer
	Records(logTo(t, &text), found)
	logged := records(t, text.String())
	text.Reset()
	if err := Documents(&text, found); err != nil {
		t.Fatal(err)
	}
	written := records(t, text.String())
	if len(logged) != 51 || len(written) != 51 {
		t.Fatalf("%d records, %d documents", len(logged), len(written))
	}
	for key, want := range map[string]string{"severity": "ERROR", "message": "key 2", "code": "R1004", "cause": "c", "fix": "f\ng", "place": "r.yaml:3:1"} {
		if logged[0][key] != want {
			t.Errorf("%s is %v, want %s", key, logged[0][key], want)
		}
	}
	for key, want := range map[string]any{"severity": "error", "what": "key 2", "code": "R1004", "cause": "c", "fix": "f\ng", "file": "r.yaml", "line": 3.0,
		"more": "https://github.com/dynamodb-bigtable/replicator/blob/main/docs/errors.md#R1004"} {
		if written[0][key] != want {
			t.Errorf("%s is %v, want %v", key, written[0][key], want)
		}
	}
	text.Reset()
	Records(logTo(t, &text), diag.List{{Code: diag.Usage, What: "wrong"}})
	if cause, is := records(t, text.String())[0]["cause"]; is {
		t.Errorf("a finding without a cause has the cause %q", cause)
	}
	const rest = "and 8 more errors and 2 more warnings"
	if logged[50]["message"] != rest || written[50]["what"] != rest {
		t.Errorf("the rest is %v and %v", logged[50], written[50])
	}
}
