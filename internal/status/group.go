package status

import (
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
)

// tableLine is a line of the table of tables: a table, or the tables of one pattern together.
type tableLine struct {
	*Table
	name, copy string
	unread     bool // some table's lag cannot be told, so that the one of the line may be more
}

func (l tableLine) lagText() string {
	if l.unread && l.LagSeconds != nil {
		return ">" + seconds(l.LagSeconds)
	}
	return lagText(l.LagSeconds, l.LagEstimated)
}

// collapsed has one line for all tables of a pattern, as long as there are several: its lag is that
// of the worst, its headroom the least. What is wrong with a single one is told below the table, by
// its name.
func (m *Document) collapsed() []tableLine {
	members := map[string][]*Table{}
	for i := range m.Tables {
		if t := &m.Tables[i]; t.group != "" {
			members[t.group] = append(members[t.group], t)
		}
	}
	var lines []tableLine
	told := map[string]bool{}
	for i := range m.Tables {
		t := &m.Tables[i]
		switch {
		case len(members[t.group]) < 2:
			line := tableLine{Table: t, name: t.Source, copy: t.Copy.String()}
			if t.dropped() {
				line.copy += ", dropped"
			}
			lines = append(lines, line)
		case !told[t.group]:
			told[t.group] = true
			lines = append(lines, together(t.group, members[t.group]))
		}
	}
	return lines
}

// together sums up the tables of a pattern.
func together(group string, tables []*Table) tableLine {
	sum := &Table{Source: group}
	done, aside, unread := 0, 0, false
	var took time.Duration
	for i, t := range tables {
		if i == 0 {
			sum.Verify = t.Verify
		}
		sum.Verify = sum.Verify.worse(t.Verify)
		if t.Copy.State == copyDone {
			done++
			if t.Copy.Done != nil && t.Copy.Started != nil {
				took = max(took, t.Copy.Done.Sub(*t.Copy.Started))
			}
		}
		if t.Suspended != "" {
			aside++
		}
		sum.Parked += t.Parked
		sum.Settling += t.Settling
		if t.LagSeconds != nil && (sum.LagSeconds == nil || *t.LagSeconds > *sum.LagSeconds) {
			sum.LagSeconds, sum.LagEstimated = t.LagSeconds, t.LagEstimated
		}
		if t.HeadroomSeconds != nil && (sum.HeadroomSeconds == nil || *t.HeadroomSeconds < *sum.HeadroomSeconds) {
			sum.HeadroomSeconds = t.HeadroomSeconds
		}
		unread = unread || t.LagSeconds == nil && t.Suspended == ""
		sum.HeadroomAtMost = sum.HeadroomAtMost || t.HeadroomAtMost || t.HeadroomSeconds == nil && t.Suspended == ""
		switch {
		case t.ChangesPerSecond == nil:
		case sum.ChangesPerSecond == nil:
			rate := *t.ChangesPerSecond
			sum.ChangesPerSecond = &rate
		default:
			*sum.ChangesPerSecond += *t.ChangesPerSecond
		}
	}
	text := fmt.Sprintf("%d of %d done", done, len(tables))
	if done == len(tables) {
		text = fmt.Sprintf("%d done", done)
		if took > 0 {
			text += " (" + backfill.FormatDuration(took) + ")"
		}
	}
	if aside > 0 {
		text += fmt.Sprintf(", %d set aside", aside)
	}
	return tableLine{Table: sum, name: group, copy: text, unread: unread}
}
