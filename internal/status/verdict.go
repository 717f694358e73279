package status

import (
	"fmt"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Verdict returns the result of a run that has ended. It is nil if the target equals the source.
// Otherwise it is an error with the reason.
func (m *Document) Verdict() error {
	var found diag.List
	for _, t := range m.Tables {
		if t.stands.Left {
			continue
		}
		if t.LoadNeeded {
			found = append(found, &diag.Error{Code: diag.NeedsLoad, What: fmt.Sprintf("table %s needs a load", t.Source), Cause: OrDash(t.NeedsLoadReason)})
		}
		if t.noExport != "" {
			found = append(found, &diag.Error{Code: diag.LoadWaits, What: "the load of table " + t.Source + " waits", Cause: t.noExport, Fix: t.load.Command})
		}
		if t.Paused != nil {
			found = append(found, &diag.Error{Code: diag.TablePaused, What: "table " + t.Source + " is paused", Fix: "replicator resume --table " + t.Source})
		}
		if t.Suspended != "" {
			found = append(found, &diag.Error{Code: diag.TableSetAside, What: "table " + t.Source + " is suspended", Cause: t.Suspended})
		}
		if t.Parked > 0 && !t.stands.Left {
			found = append(found, &diag.Error{Code: diag.ItemsParked, What: terminal.Plural(t.Parked, "item") + " of table " + t.Source + " could not be stored",
				Cause: "they are parked with their reasons; all other changes are applied", Fix: "replicator parked list --table " + t.Source})
		}
	}
	return found.Err()
}

func (m *Document) AnyParked() bool {
	for _, t := range m.Tables {
		if t.Parked > 0 && !t.stands.Left {
			return true
		}
	}
	return false
}
