package browser

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/status"
)

// at is the time of all documents.
var at = time.Date(2026, 11, 2, 10, 42, 7, 0, time.UTC)

// states lists states of a migration as changes of testdata/acme.json, which is in sync. Given
// members replace those of the document. In lists whose entries have a name, they are merged into
// the entry of that name.
var states = []struct{ name, changes string }{
	{"in-sync", `{}`},
	{"copy", `{"state": "copying", "phase": "copy", "tables": [
		{"source": "VideoApp", "state": "copying", "phase": "copy", "verify": null, "copy": {"state": "running", "items": 41200000, "estimate": 136000000, "items_per_second": 22400, "eta_seconds": 4230, "done_at": null},
		 "throttled": [{"reason": "target CPU 74% > 70%", "seconds": 95, "window_seconds": 600, "last_at": "2026-11-02T10:41:50Z"}]},
		{"source": "Billing", "state": "copying", "phase": "copy", "verify": null, "copy": {"state": "running", "items": 1480000, "estimate": 1800000, "items_per_second": 2100, "eta_seconds": 152, "done_at": null}},
		{"source": "Sessions", "verify": null}],
		"cutover": {"ready": false, "open_gates": ["copy", "verify", "full_verify"], "gates": [
		 {"gate": "copy", "table": "VideoApp", "ready": false, "figure": "is not copied yet"}, {"gate": "copy", "table": "Billing", "ready": false, "figure": "is not copied yet"},
		 {"gate": "verify", "table": "VideoApp", "ready": false, "figure": "never"}, {"gate": "verify", "table": "Billing", "ready": false, "figure": "never"}, {"gate": "verify", "table": "Sessions", "ready": false, "figure": "never"},
		 {"gate": "full_verify", "table": "VideoApp", "ready": false, "figure": "never"}, {"gate": "full_verify", "table": "Billing", "ready": false, "figure": "never"}, {"gate": "full_verify", "table": "Sessions", "ready": false, "figure": "never"}]}}`},
	{"gap", `{"state": "needs_load", "phase": "copy", "tables": [
		{"source": "VideoApp", "state": "needs_load", "phase": "copy", "needs_load": true, "needs_load_reason": "GetRecords: trimmed", "loss_kind": "stream", "lost_from": "2026-11-01T08:03:00Z", "gaps": 1,
		 "last_gap": {"at": "2026-11-02T10:20:00Z", "shard": "shardId-00000001793598765432-77fe03b1", "reason": "GetRecords: trimmed"},
		 "lag_seconds": 68400, "headroom_seconds": 17999, "headroom_at_most": true, "old": true, "oldest_read_at": "2026-11-02T10:38:07Z", "changes_per_second": null,
		 "troubles": [{"step": "read a shard", "cause": "DynamoDB: AccessDeniedException", "since": "2026-11-02T10:38:07Z", "shards": 1, "throttled": false}],
		 "shards": {"done": 5, "reading": 3, "waiting": 1, "gap": 1}}],
		"shards": [{"id": "shardId-00000001793598765432-77fe03b1", "state": "gap", "owner": null, "lag_seconds": null, "changes_per_second": null, "reason": "GetRecords: trimmed",
		  "why": {"code": "gap", "text": "GetRecords: trimmed; the rest of the shard will be read"}},
		 {"id": "shardId-00000001793612345678-9d41c2e7", "lag_seconds": 68400, "old": true, "changes_per_second": null, "why": {"code": "trouble", "text": "cannot read a shard (for 4m): DynamoDB: AccessDeniedException"}}],
		"workers": [{"id": "worker-c", "silent": true, "heartbeat_at": "2026-11-02T10:33:00Z"}],
		"cutover": {"ready": false, "open_gates": ["copy", "lag", "headroom"], "gates": [
		 {"gate": "copy", "table": "VideoApp", "ready": false, "figure": "needs a load: GetRecords: trimmed"}, {"gate": "lag", "table": "VideoApp", "ready": false, "figure": "no worker reads shard shardId-00000001793598765432-77fe03b1"},
		 {"gate": "headroom", "table": "VideoApp", "ready": false, "figure": "5h"}]},
		"next_steps": [{"command": "replicator backfill repair VideoApp", "why": "VideoApp: GetRecords: trimmed"},
		 {"command": "replicator status --shards --table VideoApp", "why": "VideoApp: the stream drops unapplied changes in <5h; VideoApp: cannot read a shard (for 4m in 1 shard): DynamoDB: AccessDeniedException"}]}`},
	{"paused", `{"state": "paused", "phase": "copy", "tables": [{"source": "Billing", "state": "paused", "phase": "copy", "paused": {"since": "2026-11-02T10:02:00Z", "reason": "index rebuild, CHG-4711"}, "lag_seconds": 2407, "headroom_seconds": 83993, "changes_per_second": null}],
		"shards": [{"id": "shardId-00000001793600000002-c0de0002", "owner": null, "lag_seconds": 2407, "changes_per_second": null, "why": {"code": "nobody", "text": "for a worker to acquire it"}}],
		"cutover": {"ready": false, "open_gates": ["copy", "lag"], "gates": [{"gate": "copy", "table": "Billing", "ready": false, "figure": "is paused by an operator: replicator resume --table Billing"},
		 {"gate": "lag", "table": "Billing", "ready": false, "figure": "no worker reads shard shardId-00000001793600000002-c0de0002"}]},
		"next_steps": [{"command": "replicator resume --table Billing", "why": "Billing: paused for 40m; the stream keeps changes for only 24 hours"}]}`},
	{"parked", `{"tables": [{"source": "VideoApp", "parked": 12}, {"source": "Billing", "verify": {"clean": false, "verdict": "2 rows differ, 6m ago", "differing": 2}}],
		"cutover": {"ready": false, "open_gates": ["parked", "verify"], "gates": [{"gate": "parked", "table": "VideoApp", "ready": false, "figure": "12"}, {"gate": "verify", "table": "Billing", "ready": false, "figure": "2 rows differ, 6m ago"}]},
		"next_steps": [{"command": "replicator parked list --table VideoApp", "why": "12 items need a decision"}, {"command": "replicator verify --repair --table Billing", "why": "2 rows differ"}]}`},
	{"cutover", `{"state": "cutover", "phase": "cutover", "tables": [{"source": "VideoApp", "changes_per_second": 0}, {"source": "Billing", "changes_per_second": 0}, {"source": "Sessions", "changes_per_second": 0}],
		"cutover": {"step": "drain", "attempt": 2, "frozen_seconds": 12.4},
		"next_steps": [{"command": "replicator cutover status", "why": "a cutover is running: drain"}]}`},
	{"done", `{"state": "done", "phase": "done", "tables": [{"source": "VideoApp", "state": "done", "phase": "done", "lag_seconds": null, "headroom_seconds": null, "changes_per_second": null}, {"source": "Billing", "state": "done", "phase": "done", "lag_seconds": null, "headroom_seconds": null, "changes_per_second": null},
		 {"source": "Sessions", "state": "done", "phase": "done", "lag_seconds": null, "headroom_seconds": null, "changes_per_second": null}],
		"cutover": {"ready": false, "step": "done", "attempt": 2, "frozen_seconds": 41.7, "open_gates": ["lag", "headroom"], "gates": null},
		"shards": [{"id": "shardId-00000001793612345678-9d41c2e7", "owner": null, "lag_seconds": null, "changes_per_second": null, "why": {"code": "nobody", "text": "for a worker to acquire it"}},
		 {"id": "shardId-00000001793612345678-b1e05f66", "owner": null, "lag_seconds": null, "changes_per_second": null, "why": {"code": "nobody", "text": "for a worker to acquire it"}},
		 {"id": "shardId-00000001793598765432-77fe03b1", "owner": null, "lag_seconds": null, "changes_per_second": null, "why": {"code": "nobody", "text": "for a worker to acquire it"}},
		 {"id": "shardId-00000001793612999999-f00dfeed", "owner": null, "lag_seconds": null, "changes_per_second": null, "why": {"code": "nobody", "text": "for a worker to acquire it"}},
		 {"id": "shardId-00000001793600000002-c0de0002", "owner": null, "lag_seconds": null, "changes_per_second": null, "why": {"code": "nobody", "text": "for a worker to acquire it"}},
		 {"id": "shardId-00000001793600000003-5e550001", "owner": null, "lag_seconds": null, "changes_per_second": null, "why": {"code": "nobody", "text": "for a worker to acquire it"}}],
		"workers": [{"id": "worker-a", "leases": 0}, {"id": "worker-b", "leases": 0}, {"id": "worker-c", "leases": 0}],
		"next_steps": [{"command": "replicator finalize --dry-run", "why": "the application no longer uses the source; replicator's metadata can be removed from the target"}]}`},
	{"relay", `{"tables": [{"source": "VideoApp", "apply": "topic", "behind": 1240}, {"source": "Billing", "apply": "topic", "behind": 0}, {"source": "Sessions", "apply": "topic", "behind": 31}]}`},
}

// documentOf returns the document of a state.
func documentOf(t *testing.T, name string) *status.Document {
	t.Helper()
	for _, s := range states {
		if s.name == name {
			return changed(t, s.changes)
		}
	}
	t.Fatalf("there is no state %s", name)
	return nil
}

// changed returns the document that is in sync, with changes.
func changed(t *testing.T, changes string) *status.Document {
	t.Helper()
	text, err := os.ReadFile("testdata/acme.json")
	if err != nil {
		t.Fatal(err)
	}
	var base, patch map[string]any
	if err := json.Unmarshal(text, &base); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(changes), &patch); err != nil {
		t.Fatalf("%s: %v", changes, err)
	}
	text, err = json.Marshal(merged(base, patch))
	if err != nil {
		t.Fatal(err)
	}
	m := &status.Document{}
	if err := json.Unmarshal(text, m); err != nil {
		t.Fatal(err)
	}
	for i := range m.Tables {
		if table := &m.Tables[i]; table.Behind != nil { // two members that the JSON document lacks
			oldest := 11.5
			table.TopicLag, table.DeadLetter = &oldest, i
		}
	}
	return m
}

func merged(old, change any) any {
	switch change := change.(type) {
	case map[string]any:
		old, ok := old.(map[string]any)
		if !ok {
			return change
		}
		for name, value := range change {
			old[name] = merged(old[name], value)
		}
		return old
	case []any:
		old, ok := old.([]any)
		if !ok {
			return change
		}
		for _, entry := range change {
			i := 0
			for i < len(old) && (nameOf(old[i]) == "" || nameOf(old[i]) != nameOf(entry)) {
				i++
			}
			switch {
			case nameOf(entry) == "":
				return change
			case i == len(old):
				old = append(old, entry)
			default:
				old[i] = merged(old[i], entry)
			}
		}
		return old
	}
	return change
}

// nameOf returns the name that identifies an entry of a list.
func nameOf(entry any) string {
	e, ok := entry.(map[string]any)
	switch {
	case !ok:
		return ""
	case e["gate"] != nil:
		return fmt.Sprint(e["gate"], " ", e["table"])
	case e["id"] != nil:
		return fmt.Sprint(e["id"])
	case e["source"] != nil:
		return fmt.Sprint(e["source"])
	}
	return ""
}
