package dashboard

import (
	"context"
	"errors"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/comparison"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// mostFindings is the maximum number of rows that a page lists.
const mostFindings = 200

// verifyPage is the result of the last verify of a table, with its findings by row.
type verifyPage struct {
	Source  string
	Results []result
	Rows    []findingLine
	findingList
}

// findingLine is a row that a verify recorded. Columns is the number of its columns that differ.
type findingLine struct {
	Kind, Target, KeyHash, Reason string
	Columns                       int
}

// findingList is the beginning of the list of the rows that the last verify of a table recorded: rows
// that differ, and rows that stayed in flight. Their keys are hashes.
type findingList struct {
	Result  checkpoint.VerifyResult
	Entries []comparison.Finding
	More    bool
	Unread  int  // number of findings that this version cannot read
	Unnamed bool // the ledger lacks the mapping, so the hashes are unknown
	Running bool // a verify is running, so that the rows of the last one may be gone
}

func verifyPageOf(ctx context.Context, m *status.Document, ledger *Ledger, name string) (verifyPage, error) {
	if _, err := tableOf(m, name); err != nil {
		return verifyPage{}, err
	}
	list, err := ledger.findings(ctx, name)
	v := verifyPage{Source: name, findingList: list}
	if list.Result.Known() {
		v.Results = []result{resultOf("last", list.Result, m.At)}
	}
	for _, f := range list.Entries {
		v.Rows = append(v.Rows, findingLine{comparison.KindText(f.Kind), f.Target, f.KeyHash, status.OrDash(f.Reason), len(f.Columns) + f.MoreColumns})
	}
	return v, err
}

// findings reads the rows that the last verify of a table recorded.
func (l *Ledger) findings(ctx context.Context, source string) (findingList, error) {
	return glanceOf(ctx, l, "verify/"+source, glanceFor, func(ctx context.Context) (list findingList, err error) {
		ledger, err := l.open(ctx)
		if err == nil && ledger != nil {
			list, err = findingsOf(ctx, ledger, source)
		}
		if err != nil {
			err = preflight.ReadingFailed(ctx, "cannot read the findings of verify in table "+l.Config.State.Table, err)
		}
		return list, err
	})
}

func findingsOf(ctx context.Context, ledger *checkpoint.Ledger, source string) (findingList, error) {
	state, _, err := ledger.Table(ctx, source)
	run := state.Verify
	list := findingList{Result: run.Result, Running: run.Running()}
	if err != nil || list.Running || !run.Result.Known() || run.Result.Clean() {
		return list, err
	}
	found, err := verify.Findings(ctx, ledger, source, run.Result)
	var unread *verify.UnreadableError
	if errors.As(err, &unread) {
		list.Unread, err = unread.Findings, nil
	}
	if err != nil {
		return list, err
	}
	// The ledger's mapping suffices: a hash depends only on the key schema.
	mapping, unknown := config.RestoreMapping(state.Mapping)
	if list.Unnamed = unknown != nil && len(found) > 0; list.Unnamed {
		return list, nil
	}
	for _, f := range found[:min(len(found), mostFindings)] {
		list.Entries = append(list.Entries, comparison.FindingOf(mapping, f, false))
	}
	list.More = len(found) > mostFindings
	return list, nil
}
