package notify

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/status"
)

func parkedEvent(action string, tables ...string) Event {
	n := news{kind: status.OccurParked, action: action}
	for _, table := range tables {
		n.of = append(n.of, status.Occurrence{Kind: status.OccurParked, Table: table, Command: "replicator parked list"})
	}
	return n.event("p", noon)
}

// In the format json, the body is signed if there is a secret. The signature is the known one of this
// body and key.
func TestJSONIsSigned(t *testing.T) {
	e := Event{Schema: eventSchema, ID: "1", Tables: []string{}, At: noon}
	for secret, want := range map[string]string{"": "", "key": "sha256=818c98ee8f98e4b111924bd3242ab11c39ed92b87e1b47a5bb15ad70b351c2d4"} {
		all, err := calls(formatJSON, secret, "", e)
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		if got := all[0].header.Get(signatureHeader); got != want {
			t.Errorf("%s of %s", got, all[0].body)
		}
		var again Event
		if err := json.Unmarshal(all[0].body, &again); err != nil || again.ID != "1" {
			t.Error(err, again)
		}
	}
}

// Slack's markup cannot be entered through a name.
func TestSlackIsEscaped(t *testing.T) {
	all, err := calls(formatSlack, "", "", parkedEvent(begins, "<!channel>&"))
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	var body map[string]string
	if err := json.Unmarshal(all[0].body, &body); err != nil {
		t.Fatal(err)
	}
	const want = "*p* warning: items are parked: &lt;!channel&gt;&amp;\n`replicator parked list`\n<https://github.com/dynamodb-bigtable/replicator/blob/main/deploy/runbooks/parked.md>"
	if body["text"] != want {
		t.Errorf("%q", body["text"])
	}
}

// PagerDuty gets an event for each table, so that each incident is resolved separately. Long keys and
// summaries fit its limits. It gets no event that needs no person.
func TestPagerDuty(t *testing.T) {
	of := func(ledger string, e Event) (all []pagerDuty) {
		t.Helper()
		made, err := calls(formatPagerDuty, "routing", ledger, e)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range made {
			var p pagerDuty
			if err := json.Unmarshal(c.body, &p); err != nil || p.RoutingKey != "routing" {
				t.Fatal(err, p)
			}
			all = append(all, p)
		}
		return all
	}
	keys := func(e Event) []pagerDuty { return of("project/instance/state", e) }
	begun, ended := keys(parkedEvent(begins, "A", "B")), keys(parkedEvent(ends, "B"))
	if len(begun) != 2 || len(ended) != 1 || begun[1].DedupKey != "project/instance/state/p/parked/B" || ended[0].DedupKey != begun[1].DedupKey || begun[0].DedupKey == begun[1].DedupKey ||
		begun[0].Action != "trigger" || ended[0].Action != "resolve" || begun[0].Payload.Severity != warning || begun[0].Payload.Details["command"] == "" {
		t.Errorf("%+v\n%+v", begun, ended)
	}
	if other := of("other/instance/state", parkedEvent(begins, "B")); other[0].DedupKey == begun[1].DedupKey || other[0].Payload.Source != "other/instance/state/p" {
		t.Errorf("two pipelines of one name share an incident: %+v", other)
	}
	urgent := parkedEvent(begins, "A")
	urgent.Severity = page
	if worst := keys(urgent); worst[0].Payload.Severity != "critical" {
		t.Errorf("the severity page is %q for PagerDuty", worst[0].Payload.Severity)
	}
	long := keys(parkedEvent(begins, strings.Repeat("ä", 2000)))
	if n := len(long[0].DedupKey); n > mostDedupKey || len([]rune(long[0].Payload.Summary)) != mostSummary {
		t.Errorf("a key of %d bytes, a summary of %d", n, len(long[0].Payload.Summary))
	}
	expired := news{kind: status.OccurExpired, action: happened, of: []status.Occurrence{{Kind: status.OccurExpired, Group: "g", Mark: "1"}}}
	again := news{kind: status.OccurExpired, action: happened, of: []status.Occurrence{{Kind: status.OccurExpired, Group: "g", Mark: "2"}}}
	if a, b := keys(expired.event("p", noon)), keys(again.event("p", noon)); a[0].DedupKey == b[0].DedupKey || a[0].Payload.Component != "g" {
		t.Errorf("%+v\n%+v", a, b)
	}
	synced := news{kind: status.OccurInSync, action: happened, of: []status.Occurrence{{Kind: status.OccurInSync}}}.event("p", noon)
	if takes(formatPagerDuty, synced) || !takes(formatSlack, synced) || !takes(formatPagerDuty, begunEvent()) {
		t.Error("PagerDuty gets what needs no person, or does not get what does")
	}
}

func begunEvent() Event { return parkedEvent(begins, "A") }
