package status

import (
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
)

// tableLine is a line of the status text: one table, or all tables that match a pattern.
type tableLine struct {
	*Table
	name, copy string
	unread     bool // the lag of a table is unknown, so the lag of the line may be higher
}

func (l *tableLine) lagText() string {
	if l.unread && l.LagSeconds != nil {
		return ">" + seconds(l.LagSeconds)
	}
	return lagText(l.LagSeconds, l.LagEstimated)
}

// collapsed returns the lines of the status text. A pattern with several tables has one line, with
// the highest lag and the least headroom. Problems of a single table are shown below the lines,
// with the table's name.
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
			lines = append(lines, lineOf(t))
		case !told[t.group]:
			told[t.group] = true
			lines = append(lines, together(t.group, members[t.group]))
		}
	}
	return lines
}

// lineOf returns the line of a single table.
func lineOf(t *Table) tableLine {
	line := tableLine{Table: t, name: t.Source, copy: t.Copy.String()}
	if t.dropped() {
		line.copy += ", dropped"
	}
	return line
}

// together returns one line for all tables that match a pattern.
func together(group string, tables []*Table) tableLine {
	line := tableLine{Table: &Table{Source: group}, name: group, copy: copiesText(tables)}
	for _, t := range tables {
		line.unread = line.unread || t.LagSeconds == nil && t.Suspended == ""
	}
	for _, c := range Columns {
		if c.join != nil {
			c.join(line.Table, tables)
		}
	}
	return line
}

// copiesText returns the number of copied tables, of all tables that match a pattern, as text.
func copiesText(tables []*Table) string {
	done, aside := 0, 0
	var took time.Duration
	for _, t := range tables {
		if t.Copy.State == copyDone {
			done++
			if t.Copy.Done != nil && t.Copy.Started != nil {
				took = max(took, t.Copy.Done.Sub(*t.Copy.Started))
			}
		}
		if t.Suspended != "" {
			aside++
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
		text += fmt.Sprintf(", %d suspended", aside)
	}
	return text
}
