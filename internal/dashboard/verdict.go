package dashboard

import (
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/status"
)

// verdict is the first line of the page: the state of the whole migration in one sentence. Page is the
// address of the document that explains the state, and Command is the first command to run; "" for
// none.
type verdict struct {
	state
	Severity      standing.Severity
	Page, Command string
}

// verdictOf returns the verdict on a migration. The command is that of the table whose state is
// shown, so that it belongs to the sentence.
func verdictOf(m *status.Document) verdict {
	v := verdict{state: standsOf(m.Standing), Severity: m.Severity(), Page: m.Page()}
	v.Word = m.Headline()
	for i := range m.Tables {
		if t := &m.Tables[i]; t.State == m.State && status.OrEmpty(t.Reason) == status.OrEmpty(m.Reason) {
			v.Command = commandOf(t)
			break
		}
	}
	return v
}

// commandOf returns the first command to run for a table; "" if there is none.
func commandOf(t *status.Table) string {
	if len(t.NextSteps) == 0 {
		return ""
	}
	return t.NextSteps[0].Command
}

// Title returns the title of the page, with the verdict first, so that a narrow tab shows it.
func (v *view) Title() string {
	if v.Document == nil {
		return "replicator"
	}
	return v.Verdict.Word + " · " + v.Name + " · replicator"
}

// Wide returns the number of columns of the list of tables.
func (v *view) Wide() int { return 3 + len(v.Columns()) }

// standsOf returns the display of a state: by its severity, with a tick for the good states.
func standsOf(s status.Standing) state {
	out := severityState(s.Severity(), s.State.Text())
	switch s.State {
	case standing.InSync, standing.Done:
		out.Shape, out.Class = "✓", "good"
	case standing.Cutover:
		if out.Class == "now" {
			out.Shape, out.Class = "✓", "good"
		}
	case standing.Paused:
		out.Shape = "‖"
	}
	return out
}

// severityState returns the display of a text with a severity.
func severityState(s standing.Severity, word string) state {
	switch s {
	case standing.SeverityPage:
		return state{word, "✗", "bad"}
	case standing.SeverityWarning:
		return state{word, "▲", "warn"}
	}
	return state{word, "◐", "now"}
}

// remark is a line below the figures. The severity is shown as a word with a shape.
type remark struct {
	state
	Text string
}

// remarksOf returns the lines below the figures, the worst first.
func remarksOf(m *status.Document) (out []remark) {
	for _, r := range m.Remarks() {
		line := remark{severityState(r.Severity, string(r.Severity)), r.Text}
		if r.Severity == standing.SeverityInfo {
			line.Shape, line.Class = "●", "soft"
		}
		out = append(out, line)
	}
	return out
}
