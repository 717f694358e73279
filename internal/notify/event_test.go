package notify

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/status"
)

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// history plays passes of a tracker, each a second after the last one unless it says otherwise.
type history struct {
	*tracker
	at      time.Duration
	noticed []checkpoint.Noticed
	begun   bool
}

// pass looks at occurrences after a time, and returns what is announced.
func (h *history) pass(after time.Duration, found ...status.Occurrence) string {
	h.at += after
	noticed, all := h.next(h.at, noon.Add(h.at), found, h.noticed, !h.begun)
	h.noticed, h.begun = noticed, true
	var said []string
	for _, n := range all {
		e := n.event("p", noon)
		said = append(said, fmt.Sprintf("%s %s %s", e.Kind, e.Action, strings.Join(e.Tables, "+")))
	}
	slices.Sort(said)
	return strings.Join(said, ", ")
}

func condition(kind, table string) status.Occurrence {
	return status.Occurrence{Kind: kind, Table: table, Since: noon}
}

func step(kind, mark string, since time.Time) status.Occurrence {
	return status.Occurrence{Kind: kind, Mark: mark, Since: since}
}

type pass struct {
	after time.Duration
	found []status.Occurrence
	want  string
}

// A condition is announced once, and its end once, after it was absent for a minute. One that comes
// and goes must last for a minute. Tables with the same news share a notification.
func TestWhatIsAnnounced(t *testing.T) {
	parked, stalled, second := condition(status.OccurParked, "A"), condition(status.OccurStalled, "A"), condition(status.OccurParked, "B")
	synced := step(status.OccurInSync, "g1", noon)
	for name, passes := range map[string][]pass{
		"at once, and once": {
			{0, []status.Occurrence{parked}, "parked begins A"}, {time.Second, []status.Occurrence{parked}, ""}, {time.Hour, []status.Occurrence{parked}, ""},
			{time.Second, nil, ""}, {59 * time.Second, nil, ""}, {time.Second, nil, "parked ends A"}, {time.Hour, nil, ""},
			{time.Second, []status.Occurrence{parked}, "parked begins A"},
		},
		"a short absence is no end": {
			{0, []status.Occurrence{parked}, "parked begins A"}, {time.Second, nil, ""}, {50 * time.Second, []status.Occurrence{parked}, ""},
			{time.Second, nil, ""}, {59 * time.Second, nil, ""}, {time.Second, nil, "parked ends A"},
		},
		"a stall must last": {
			{0, []status.Occurrence{stalled}, ""}, {59 * time.Second, []status.Occurrence{stalled}, ""}, {time.Second, nil, ""},
			{time.Second, []status.Occurrence{stalled}, ""}, {59 * time.Second, []status.Occurrence{stalled}, ""}, {time.Second, []status.Occurrence{stalled}, "stalled begins A"},
		},
		"tables share a notification": {
			{0, []status.Occurrence{parked, second}, "parked begins A+B"}, {time.Second, []status.Occurrence{second}, ""}, {time.Minute, []status.Occurrence{second}, "parked ends A"},
		},
		"groups do not": {
			{0, []status.Occurrence{{Kind: status.OccurStrays, Group: "a"}, {Kind: status.OccurStrays, Group: "b"}}, "strays begins , strays begins "},
		},
		"a step once": {
			{0, []status.Occurrence{synced}, "in_sync happened "}, {time.Second, nil, ""}, {time.Hour, []status.Occurrence{synced}, ""},
			{time.Second, []status.Occurrence{step(status.OccurInSync, "g2", noon)}, "in_sync happened "},
		},
		"no old step at first": {
			{0, []status.Occurrence{step(status.OccurInSync, "g1", noon.Add(-oldNews)), step(status.OccurDone, "1", noon.Add(1-oldNews))}, "done happened "},
			{time.Second, []status.Occurrence{step(status.OccurInSync, "g1", noon.Add(-oldNews))}, ""},
		},
		"an old step later": {{0, nil, ""}, {time.Second, []status.Occurrence{step(status.OccurCopyDone, "1", noon.Add(-2*oldNews))}, "copy_done happened "}},
		"nothing":           {{0, nil, ""}},
	} {
		h := &history{tracker: newTracker()}
		for i, p := range passes {
			if got := h.pass(p.after, p.found...); got != p.want {
				t.Errorf("%s, pass %d: %q, want %q", name, i, got, p.want)
			}
		}
	}
}

// Another process that takes over announces nothing again. It observes absences for itself.
func TestTakeover(t *testing.T) {
	h := &history{tracker: newTracker()}
	parked, synced := condition(status.OccurParked, "A"), step(status.OccurInSync, "1", noon)
	h.pass(0, parked, synced)
	h.pass(time.Second)
	h.tracker = newTracker()
	for _, p := range []pass{{59 * time.Second, []status.Occurrence{synced}, ""}, {59 * time.Second, nil, ""}, {time.Second, nil, "parked ends A"}} {
		if got := h.pass(p.after, p.found...); got != p.want {
			t.Errorf("%q, want %q", got, p.want)
		}
	}
}

// The record stays small: it forgets steps that the status has not had for a month.
func TestOldStepsAreForgotten(t *testing.T) {
	h := &history{tracker: newTracker()}
	h.pass(0, step(status.OccurCopyDone, "1", noon))
	h.pass(forgotten - time.Second)
	if len(h.noticed) != 1 {
		t.Error("it is forgotten too early")
	}
	if got := h.pass(time.Second); len(h.noticed) != 0 || got != "" {
		t.Errorf("%+v, %q", h.noticed, got)
	}
}

// A summary names at most five tables. The end has no command, and an id is unique for each event.
func TestEventsAreReadable(t *testing.T) {
	many := news{kind: status.OccurParked, action: begins}
	for i := range 7 {
		many.of = append(many.of, status.Occurrence{Kind: status.OccurParked, Table: fmt.Sprint("T", i), Text: "items could not be stored: 1", Command: "replicator parked list"})
	}
	one, end := many, many
	one.of, end.action = many.of[:1], ends
	for _, c := range []struct {
		n    news
		want string
	}{
		{many, "items are parked: T0, T1, T2, T3, T4, 2 more"},
		{one, "items are parked: T0 (items could not be stored: 1)"},
		{end, "ended: items are parked: T0, T1, T2, T3, T4, 2 more"},
	} {
		if e := c.n.event("p", noon); e.Summary != c.want {
			t.Errorf("%q, want %q", e.Summary, c.want)
		}
	}
	first, last := many.event("p", noon), end.event("p", noon)
	if first.ID == last.ID || first.ID == one.event("p", noon).ID || first.ID != many.event("p", noon).ID || first.ID == many.event("q", noon).ID {
		t.Error("ids are not unique, or not repeatable")
	}
	if len(first.Tables) != 7 || first.Command == nil || last.Command != nil || first.Since != nil || first.Group != nil {
		t.Errorf("%+v, %+v", first, last)
	}
}

// Each kind has a title and a page that exists.
func TestKindsHavePages(t *testing.T) {
	for name, k := range kinds {
		if _, err := os.Stat("../../" + k.document); err != nil || k.title == "" || !slices.Contains([]string{page, warning, info}, k.severity) {
			t.Errorf("%s: %+v, %v", name, k, err)
		}
	}
}
