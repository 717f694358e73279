package standing

import (
	"slices"
	"testing"
)

// Every state has a severity and a document. Reasons with an entry of their own are reasons with a
// case.
func TestEveryStateHasASeverity(t *testing.T) {
	for _, state := range States {
		if u := urgencies[state][""]; !slices.Contains(Severities, u.severity) || u.page == "" {
			t.Errorf("%s: %+v", state, u)
		}
		for reason := range urgencies[state] {
			known := reason == ""
			for _, c := range cases {
				known = known || c.state == state && c.reason == reason
			}
			if !known {
				t.Errorf("no case of %s for the reason %s", state, reason)
			}
		}
	}
	for _, c := range []struct {
		state  State
		reason Reason
		want   Severity
	}{
		{InSync, "", SeverityInfo}, {Stalled, stepFails, SeverityPage}, {Stalled, dropped, SeverityWarning}, {CatchingUp, lagging, SeverityInfo},
		{CatchingUp, beyondStream, SeverityPage}, {Sweeping, approval, SeverityWarning}, {Copying, fastLoad, SeverityInfo}, {NeedsLoad, rolledBack, SeverityWarning},
	} {
		if got := SeverityOf(c.state, c.reason); got != c.want {
			t.Errorf("%s, %s: %s, want %s", c.state, c.reason, got, c.want)
		}
	}
}

// A failing step is described by what fails. Other reasons are described by their own words, followed
// by the detail.
func TestCause(t *testing.T) {
	for _, c := range []struct {
		state        State
		reason       Reason
		detail, want string
	}{
		{Stalled, stepFails, "cannot read: denied", "cannot read: denied"}, {Stalled, stepFails, "", "a step fails and is retried"},
		{Stalled, noWorker, "shard s", "no worker reads the stream: shard s"}, {InSync, "", "", "every change is applied"},
	} {
		if got := Cause(c.state, c.reason, c.detail); got != c.want {
			t.Errorf("%s, %s: %q, want %q", c.state, c.reason, got, c.want)
		}
	}
}
