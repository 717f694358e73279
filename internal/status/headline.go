package status

import (
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Headline returns the state of the whole migration in one sentence. The sentence has the state, the
// tables that have it, the reason, and the time since which the state applies. The status text
// and the page show the same sentence.
func (m *Document) Headline() string {
	if len(m.Tables) == 0 {
		return opening(m.State) + ": no table is known yet"
	}
	return m.Standing.headline(m.concerned(), m.At)
}

// Headline returns the table's state in one sentence, without the table's name.
func (t *Table) Headline(now time.Time) string { return t.Standing.headline("", now) }

// headline returns a state in one sentence. A state that needs an operator ends with its duration.
// Any other state has the time since which it applies, because its duration needs no action. The
// argument `of` names the tables that have the state; "" for none.
func (s Standing) headline(of string, now time.Time) string {
	text, end := opening(s.State), ""
	switch {
	case s.Since == nil:
	case s.Severity() == standing.SeverityInfo:
		text += " since " + clockText(*s.Since, now)
	default:
		end = " (for " + since(s.Since, now) + ")"
	}
	if of != "" {
		text += ": " + of
	}
	if s.State != standing.InSync {
		text += ": " + standing.Cause(s.State, s.why(), OrEmpty(s.Detail))
	}
	return text + end
}

// SinceText returns how long a state that needs an operator has lasted, or since when another state
// has applied; "" if that is unknown.
func (t *Table) SinceText(now time.Time) string {
	switch {
	case t.Since == nil:
		return ""
	case t.Severity() == standing.SeverityInfo:
		return "since " + clockText(*t.Since, now)
	}
	return "for " + since(t.Since, now)
}

// Severity returns how urgently the state needs an operator.
func (s Standing) Severity() standing.Severity { return standing.SeverityOf(s.State, s.why()) }

// Page returns the address of the document that explains the state.
func (s Standing) Page() string { return diag.Document(standing.PageOf(s.State, s.why())) }

// why returns the reason; "" if the state needs none.
func (s Standing) why() standing.Reason { return standing.Reason(OrEmpty(s.Reason)) }

// same reports whether two states have the same word and reason.
func (s Standing) same(o Standing) bool { return s.State == o.State && s.why() == o.why() }

// concerned names the tables that have the state of the whole migration. It is "" if there is only
// one table, or if all tables are in sync or done.
func (m *Document) concerned() string {
	var names []string
	for i := range m.Tables {
		if t := &m.Tables[i]; t.same(m.Standing) {
			names = append(names, t.Source)
		}
	}
	switch {
	case len(m.Tables) == 1 || len(names) == 0:
		return ""
	case len(names) == len(m.Tables) && (m.State == standing.InSync || m.State == standing.Done):
		return ""
	case len(names) == 1:
		return names[0]
	}
	return names[0] + " and " + terminal.Plural(len(names)-1, "more table")
}

// sharedSince returns the time since which the state of the whole migration applies. Tables are
// together in sync or done since the last of them is. Any other state applies since it began for the
// table that Standing is of.
func (m *Document) sharedSince() *time.Time {
	at := m.Since
	if m.State != standing.InSync && m.State != standing.Done {
		return at
	}
	for i := range m.Tables {
		t := &m.Tables[i]
		if t.State != m.State {
			continue
		}
		if t.Since == nil {
			return nil
		}
		if at == nil || t.Since.After(*at) {
			at = t.Since
		}
	}
	return at
}

// opening returns the words of a state as the beginning of a sentence.
func opening(s standing.State) string {
	text := s.Text()
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// clockText formats a time. A time of the same UTC day has no date.
func clockText(at, now time.Time) string {
	at, now = at.UTC(), now.UTC()
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format("15:04") + " UTC"
	}
	return at.Format("2006-01-02 15:04") + " UTC"
}

// Remark is a line below the table of figures, with its severity.
type Remark struct {
	Severity standing.Severity
	Text     string
}

// Remarks returns the lines below the table of figures, the worst first. The status text has the
// same lines in the order of their tables.
func (m *Document) Remarks() []Remark {
	remarks := m.remarks()
	slices.SortStableFunc(remarks, func(a, b Remark) int {
		return slices.Index(standing.Severities, a.Severity) - slices.Index(standing.Severities, b.Severity)
	})
	return remarks
}
