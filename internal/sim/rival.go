package sim

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// rival rewrites the table's record just before somebody else's compare-and-set of it, as another worker, the survey of a command or an
// operator would who notes something of no consequence: what was to be written has to be made anew of what the record holds now. Left to
// chance, two such writes seldom meet within one round trip.
func (s *simulation) rival(op, table, key string) {
	if s.rivals == 0 || op != "Swap" || table != stateTable || !strings.HasPrefix(key, "default/table/") || !s.World.Chance(s.rivals) {
		return
	}
	row := s.Target.Row(table, key)
	counter, ok := row.Value(ledgerFamily, counterColumn)
	text, _ := row.Value(ledgerFamily, recordColumn)
	if !ok {
		return
	}
	n, err := strconv.ParseUint(counter, 10, 64)
	record := map[string]json.RawMessage{}
	if err != nil || json.Unmarshal([]byte(text), &record) != nil {
		panic("sim: a record of a table that is none")
	}
	s.written++
	record["by"], record["n"] = json.RawMessage(`"rival"`), json.RawMessage(strconv.Itoa(s.written))
	data, err := json.Marshal(record)
	if err != nil {
		panic(fmt.Sprintf("sim: %v", err))
	}
	s.World.Inject("rival write of a table's record")
	s.World.Tracef("a rival writes the table's record")
	_, _ = s.Target.execute("Swap", table, key, nil, []write{
		{kind: setCell, family: ledgerFamily, qualifier: counterColumn, value: strconv.FormatUint(n+1, 10)},
		{kind: setCell, family: ledgerFamily, qualifier: recordColumn, value: string(data)},
	})
}
