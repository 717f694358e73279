package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/status"
)

// The actions of events.
const (
	begins   = "begins"   // a condition begins
	ends     = "ends"     // a condition has ended
	happened = "happened" // a step is done
)

// The severities of events, in the words of the alert rules.
const (
	page    = string(standing.SeverityPage)
	warning = string(standing.SeverityWarning)
	info    = string(standing.SeverityInfo)
)

const eventSchema = "replicator.notification/v1"

// Event is a notification: the body of a call in the format json.
type Event struct {
	Schema   string     `json:"schema"`   // replicator.notification/v1
	ID       string     `json:"id"`       // the same if the notification is sent again
	Pipeline string     `json:"pipeline"` // name of the configuration
	Kind     string     `json:"kind"`     // docs/how-to/notifications.md lists the kinds
	Action   string     `json:"action"`   // begins, ends or happened
	Severity string     `json:"severity"` // page, warning or info
	Tables   []string   `json:"tables"`   // source tables; empty if it concerns no single table
	Group    *string    `json:"group"`    // group of a cutover; null if it concerns no cutover
	Since    *time.Time `json:"since"`    // time since which it applies; null if unknown
	At       time.Time  `json:"at"`       // time of the notification
	Summary  string     `json:"summary"`  // one line for people; it may change with a release
	Command  *string    `json:"command"`  // command to run next; null if there is none
	Docs     string     `json:"docs"`     // address of a page about it
}

// kind describes the events of one kind.
type kind struct {
	severity string
	hold     time.Duration // how long a condition must last before its begin is announced
	title    string
	document string // document about the kind, from the root of the repository
}

// hold is how long a condition must last before its begin is announced, if it may come and go. It is
// also how long any condition must be absent before its end is announced.
const hold = time.Minute

// kindTest is the kind of events that only test the receivers.
const kindTest = "test"

var kinds = map[string]kind{
	status.OccurGap:         {page, 0, "changes or rows are missing", "deploy/runbooks/needs-load.md"},
	status.OccurStalled:     {page, hold, "replication is stalled", "deploy/runbooks/stalled.md"},
	status.OccurHeadroom:    {page, hold, "the stream will soon drop unapplied changes", "deploy/runbooks/retention-headroom.md"},
	status.OccurStrays:      {page, 0, "DynamoDB has changes that Bigtable lacks", "deploy/runbooks/late-writes.md"},
	status.OccurWayBackLost: {page, 0, "changes were lost on the way back", "deploy/runbooks/way-back.md"},
	status.OccurParked:      {warning, 0, "items are parked", "deploy/runbooks/parked.md"},
	status.OccurDiffers:     {warning, 0, "rows differ", "deploy/runbooks/verify-mismatch.md"},
	status.OccurApproval:    {warning, 0, "an approval is needed", "docs/how-to/notifications.md"},
	status.OccurExpired:     {warning, 0, "the request of a cutover has expired", "docs/how-to/cutover.md"},
	status.OccurTryGivenUp:  {warning, 0, "a try of a cutover was abandoned", "docs/how-to/cutover.md"},
	status.OccurCopyDone:    {info, 0, "existing items are copied", "docs/how-to/loads.md"},
	status.OccurInSync:      {info, 0, "all tables are in sync", "docs/how-to/cutover.md"},
	status.OccurCutoverStep: {info, 0, "step of a cutover", "docs/how-to/cutover.md"},
	status.OccurDone:        {info, 0, "the cutover is done", "docs/how-to/cutover.md"},
	kindTest:                {info, 0, "this is a test of notifications", "docs/how-to/notifications.md"},
}

const documents = "https://github.com/dynamodb-bigtable/replicator/blob/main/"

// oldNews is the age above which steps are not announced in a pipeline that had no notifications
// before.
const oldNews = time.Hour

// forgotten is the age above which a step that the status no longer has is removed from the record.
const forgotten = 30 * 24 * time.Hour

// key identifies what an occurrence is about.
type key struct{ kind, table, group string }

func keyOf(o status.Occurrence) key         { return key{o.Kind, o.Table, o.Group} }
func keyOfNoticed(n checkpoint.Noticed) key { return key{n.Kind, n.Table, n.Group} }

// tracker remembers how long conditions have been seen or absent. It belongs to one term of the
// lease. All times are monotonic.
type tracker struct {
	seen   map[key]time.Duration // when a condition that is not announced was first seen
	absent map[key]time.Duration // when an announced condition was first absent
}

func newTracker() *tracker {
	return &tracker{seen: map[key]time.Duration{}, absent: map[key]time.Duration{}}
}

// news are occurrences of the same kind and action that are announced together.
type news struct {
	kind, action string
	of           []status.Occurrence
}

// joined adds an occurrence to the news of its kind.
func joined(all []news, action string, o status.Occurrence) []news {
	i := slices.IndexFunc(all, func(n news) bool {
		return n.kind == o.Kind && n.action == action && n.of[0].Group == o.Group
	})
	if i < 0 {
		i, all = len(all), append(all, news{kind: o.Kind, action: action})
	}
	all[i].of = append(all[i].of, o)
	return all
}

// ongoing returns the conditions that were announced and still apply, as news for a receiver that is
// new.
func ongoing(found []status.Occurrence, was []checkpoint.Noticed) (all []news) {
	for _, o := range found {
		if o.Mark == "" && slices.ContainsFunc(was, func(n checkpoint.Noticed) bool { return keyOfNoticed(n) == keyOf(o) }) {
			all = joined(all, begins, o)
		}
	}
	return all
}

// next compares the occurrences with what was announced. It returns what is announced after that,
// and what is new. With `first`, the pipeline had no notifications before, so steps that are older
// than oldNews are not announced. The argument mono is the monotonic time, and now the time of the
// status.
func (t *tracker) next(mono time.Duration, now time.Time, found []status.Occurrence, was []checkpoint.Noticed, first bool) (noticed []checkpoint.Noticed, all []news) {
	add := func(action string, o status.Occurrence) { all = joined(all, action, o) }
	known, current := map[key]checkpoint.Noticed{}, map[key]bool{}
	for _, n := range was {
		known[keyOfNoticed(n)] = n
	}
	for _, o := range found {
		k := keyOf(o)
		current[k] = true
		delete(t.absent, k)
		before, announced := known[k]
		switch {
		case o.Mark != "":
			if announced && before.Mark == o.Mark {
				noticed = append(noticed, before)
				continue
			}
			if !first || o.Since.IsZero() || now.Sub(o.Since) < oldNews {
				add(happened, o)
			}
		case announced:
			noticed = append(noticed, before)
			continue
		default:
			since, waits := t.seen[k]
			if !waits {
				since, t.seen[k] = mono, mono
			}
			if mono-since < kinds[o.Kind].hold {
				continue
			}
			delete(t.seen, k)
			add(begins, o)
		}
		since := o.Since
		if since.IsZero() {
			since = now
		}
		noticed = append(noticed, checkpoint.Noticed{Kind: o.Kind, Table: o.Table, Group: o.Group, Mark: o.Mark, Since: since.UTC()})
	}
	for k := range t.seen {
		if !current[k] {
			delete(t.seen, k)
		}
	}
	for _, n := range was {
		k := keyOfNoticed(n)
		if current[k] {
			continue
		}
		since, waits := t.absent[k]
		if !waits {
			since, t.absent[k] = mono, mono
		}
		// A step stays announced, so that it is not announced again after a table was briefly not in
		// sync.
		if n.Mark != "" && now.Sub(n.Since) < forgotten || n.Mark == "" && mono-since < hold {
			noticed = append(noticed, n)
			continue
		}
		delete(t.absent, k)
		if n.Mark != "" {
			continue
		}
		add(ends, status.Occurrence{Kind: n.Kind, Table: n.Table, Group: n.Group, Since: n.Since})
	}
	return noticed, all
}

// event returns the event for news of a pipeline.
func (n news) event(pipeline string, now time.Time) Event {
	k, o := kinds[n.kind], n.of[0]
	e := Event{Schema: eventSchema, Pipeline: pipeline, Kind: n.kind, Action: n.action, Severity: k.severity, Tables: []string{}, At: now.UTC(), Docs: documents + k.document}
	for _, o := range n.of {
		if o.Table != "" {
			e.Tables = append(e.Tables, o.Table)
		}
	}
	if o.Group != "" {
		e.Group = &o.Group
	}
	if !o.Since.IsZero() {
		since := o.Since.UTC()
		e.Since = &since
	}
	if o.Command != "" && n.action != ends {
		e.Command = &o.Command
	}
	e.Summary = n.summary(k.title)
	e.ID = idOf(e, o.Mark)
	return e
}

// mostNames is the number of tables that a summary names.
const mostNames = 5

// summary describes the news in one line.
func (n news) summary(title string) string {
	text := title
	if n.action == ends {
		text = "ended: " + title
	}
	var names []string
	for _, o := range n.of {
		if name := o.Table + o.Group; name != "" {
			names = append(names, name)
		}
	}
	if more := len(names) - mostNames; more > 0 {
		names = append(names[:mostNames:mostNames], fmt.Sprintf("%d more", more))
	}
	if len(names) > 0 {
		text += ": " + strings.Join(names, ", ")
	}
	if detail := n.of[0].Text; detail != "" && len(n.of) == 1 {
		text += " (" + detail + ")"
	}
	return text
}

// idOf returns an id of an event. It is the same for events about the same subjects at the same time.
func idOf(e Event, mark string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q %q %s", e.Pipeline, e.Kind, e.Action, e.Tables, mark, e.At.Format(time.RFC3339Nano))
	if e.Group != nil {
		fmt.Fprintf(h, " %q", *e.Group)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
