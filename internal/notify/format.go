package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// The formats of receivers.
const (
	formatJSON      = "json"
	formatSlack     = "slack"
	formatPagerDuty = "pagerduty"
)

// signatureHeader has the signature of a body in the format json: "sha256=" and the HMAC-SHA256 of the
// body in hex, with the receiver's secret as the key.
const signatureHeader = "Replicator-Signature"

// pagerDutyEvents is the address of PagerDuty's Events API v2.
const pagerDutyEvents = "https://events.pagerduty.com/v2/enqueue"

// call is one POST of a notification.
type call struct {
	body   []byte
	header http.Header
}

// takes reports whether receivers of a format get an event. PagerDuty opens an incident for each
// event, so it gets only warnings and worse.
func takes(format string, e Event) bool { return format != formatPagerDuty || e.Severity != info }

// calls returns the calls that send an event in a format. The argument `ledger` is the place of the
// pipeline's ledger. For PagerDuty there is one call for each table, so that each incident is resolved
// separately.
func calls(format, secret, ledger string, e Event) (all []call, err error) {
	switch format {
	case formatSlack:
		body, err := json.Marshal(map[string]string{"text": slackText(e)})
		return []call{{body: body}}, err
	case formatPagerDuty:
		subjects := e.Tables
		if len(subjects) == 0 {
			subjects = []string{""}
		}
		for _, table := range subjects {
			body, err := json.Marshal(pagerDutyEvent(secret, ledger, table, e))
			if err != nil {
				return nil, err
			}
			all = append(all, call{body: body})
		}
		return all, nil
	}
	body, err := json.Marshal(e)
	c := call{body: body, header: http.Header{}}
	if secret != "" {
		sum := hmac.New(sha256.New, []byte(secret))
		sum.Write(body)
		c.header.Set(signatureHeader, "sha256="+hex.EncodeToString(sum.Sum(nil)))
	}
	return []call{c}, err
}

// slackText returns the text of a message in Slack's markup.
func slackText(e Event) string {
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace
	text := "*" + escape(e.Pipeline) + "* " + e.Severity + ": " + escape(e.Summary)
	if e.Command != nil {
		text += "\n`" + escape(*e.Command) + "`"
	}
	return text + "\n<" + e.Docs + ">"
}

type pagerDutyLink struct {
	Href string `json:"href"`
	Text string `json:"text"`
}

type pagerDutyPayload struct {
	Summary   string            `json:"summary"`
	Source    string            `json:"source"`
	Severity  string            `json:"severity"`
	Timestamp string            `json:"timestamp"`
	Component string            `json:"component,omitempty"`
	Class     string            `json:"class"`
	Details   map[string]string `json:"custom_details"`
}

// pagerDuty is the body of a call of PagerDuty's Events API v2.
type pagerDuty struct {
	RoutingKey string           `json:"routing_key"`
	Action     string           `json:"event_action"`
	DedupKey   string           `json:"dedup_key"`
	Client     string           `json:"client"`
	Payload    pagerDutyPayload `json:"payload"`
	Links      []pagerDutyLink  `json:"links"`
}

// pagerDutySeverity returns PagerDuty's word for a severity.
func pagerDutySeverity(severity string) string {
	if severity == page {
		return "critical"
	}
	return severity
}

// mostSummary and mostDedupKey are PagerDuty's limits, in characters.
const (
	mostSummary  = 1024
	mostDedupKey = 255
)

// pagerDutyEvent returns the body for one table of an event; "" for an event without tables. The
// events of a condition share a key, so that a repeated event opens no second incident, and the end
// resolves the incident. The key begins with the place of the ledger, because two pipelines of one
// name in different places may share a routing key.
func pagerDutyEvent(secret, ledger, table string, e Event) pagerDuty {
	subject := table
	if subject == "" && e.Group != nil {
		subject = *e.Group
	}
	source := ledger + "/" + e.Pipeline
	p := pagerDuty{RoutingKey: secret, Action: "trigger", DedupKey: source + "/" + e.Kind + "/" + subject, Client: "replicator",
		Payload: pagerDutyPayload{Summary: e.Pipeline + ": " + e.Summary, Source: source, Severity: pagerDutySeverity(e.Severity), Timestamp: e.At.Format(time.RFC3339),
			Component: subject, Class: e.Kind, Details: map[string]string{"id": e.ID}},
		Links: []pagerDutyLink{{e.Docs, "documentation"}}}
	switch e.Action {
	case ends:
		p.Action = "resolve"
	case happened:
		p.DedupKey += "/" + e.ID
	}
	if len(p.DedupKey) > mostDedupKey {
		sum := sha256.Sum256([]byte(p.DedupKey))
		p.DedupKey = hex.EncodeToString(sum[:])
	}
	if text := []rune(p.Payload.Summary); len(text) > mostSummary {
		p.Payload.Summary = string(text[:mostSummary])
	}
	if e.Command != nil {
		p.Payload.Details["command"] = *e.Command
	}
	return p
}
