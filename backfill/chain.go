package backfill

import (
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Chain orders the exports of a load of the table that d describes: a full export and the windows
// after it, or only windows. Windows without old images are accepted if all addresses follow from
// the key and no application writes the target. The argument `late` bounds how long after a change
// the application may write the target. It is 0 if the application does not write the target. The
// error is *exports.Error.
func Chain(all []*exports.Export, d Description, m *transform.Mapping, late time.Duration, windowsAlone bool) ([]exports.Step, error) {
	keysAlone := m.DependsOnKeyOnly() && late == 0 && m.VersionAttribute() == ""
	steps, err := exports.Chain(all, exports.Wanted{TableARN: d.ARN, TableID: d.ID, KeysAlone: keysAlone, Windows: windowsAlone})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(steps, func(s exports.Step) bool { return s.Incremental })
	if i >= 0 && m.Outlives() {
		return nil, &exports.Error{Place: steps[i].Kind(), What: "it does not show which items the time to live has removed, and this mapping keeps their rows (expire: keep)",
			Fix: "copy everything instead of windows: by a scan, or a full export that begins late enough"}
	}
	return steps, nil
}
