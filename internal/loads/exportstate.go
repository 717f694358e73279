package loads

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// ExportState is the progress of one export of a load. Unknown values are null.
type ExportState struct {
	// State is planned, requested, in_progress, completed or failed.
	State   checkpoint.WindowState `json:"state"`
	Address *string                `json:"address"` // null until the export is completed
	ARN     *string                `json:"arn"`     // null until DynamoDB has accepted the request
	From    *time.Time             `json:"from"`    // the window's beginning; null for a full export
	At      *time.Time             `json:"at"`      // the time of the content; for a window its end
	Failed  *string                `json:"failed"`  // why there is no export
	// Files is the number of the export's data files, and FilesRead is how many of them are copied.
	Files     *int `json:"files"`
	FilesRead *int `json:"files_read"`
}

// exportStates returns the progress of the exports of a load, in their order. The argument `parts`
// holds the parts of the current phase.
func exportStates(l checkpoint.Load, parts []checkpoint.Part) []ExportState {
	out := []ExportState{}
	switch r := l.Request; {
	case len(l.Exports()) > 0:
		read := filesRead(l, parts)
		for i, e := range l.Exports() {
			state := ofExport(e)
			if read != nil {
				state.Files, state.FilesRead = &e.Files, &read[i]
			}
			out = append(out, state)
		}
	case r.Incremental:
		for _, w := range r.Windows {
			state := ofExport(w.Export)
			state.State, state.ARN, state.Failed = w.State(), terminal.Known(w.ARN), terminal.Known(w.Failed)
			state.From, state.At = terminal.KnownTime(w.From), terminal.KnownTime(w.To)
			out = append(out, state)
		}
	case r.Serial > 0: // a full export
		w := checkpoint.WindowRequest{AskedAt: r.At, ARN: r.ARN, Failed: r.Failed}
		out = append(out, ExportState{State: w.State(), ARN: terminal.Known(r.ARN), At: terminal.KnownTime(r.At), Failed: terminal.Known(r.Failed)})
	}
	return out
}

func ofExport(e checkpoint.Export) ExportState {
	state := ExportState{State: checkpoint.WindowCompleted, Address: terminal.Known(e.Address), ARN: terminal.Known(e.ARN), From: terminal.KnownTime(e.From), At: terminal.KnownTime(e.At)}
	if e.Files > 0 {
		state.Files = &e.Files
	}
	return state
}

// filesRead returns how many files of each export are copied; nil if that is unknown. A part holds
// several files of one export, and counts once it is complete.
func filesRead(l checkpoint.Load, parts []checkpoint.Part) []int {
	var files []int
	for _, e := range l.Exports() {
		files = append(files, e.Files)
	}
	if l.Parts == 0 || slices.Contains(files, 0) {
		return nil
	}
	if !l.DoneAt.IsZero() {
		return files
	}
	group, ok := backfill.GroupFor(files, l.Parts)
	if !ok {
		return nil
	}
	read := make([]int, len(files))
	for _, p := range parts {
		first := p.Index
		for i, n := range files {
			if of := backfill.PartsOfFiles(n, group); first >= of {
				first -= of
				continue
			}
			if p.State == checkpoint.PartDone {
				read[i] += min(group, files[i]-first*group)
			}
			break
		}
	}
	return read
}

// String describes the export in one line.
func (e ExportState) String() string {
	text := "export"
	switch {
	case e.From != nil:
		text = "window " + e.From.Format(time.RFC3339) + " to " + e.At.Format(time.RFC3339)
	case e.At != nil:
		text = "export as of " + e.At.Format(time.RFC3339)
	}
	text += "  " + strings.ReplaceAll(string(e.State), "_", " ")
	if e.FilesRead != nil {
		text += fmt.Sprintf(", %d of %s read", *e.FilesRead, terminal.Plural(*e.Files, "file"))
	}
	if e.Failed != nil {
		text += ": " + *e.Failed
	}
	return text
}
