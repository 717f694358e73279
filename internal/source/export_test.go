package source

import (
	"context"
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

type exportAnswer struct {
	report backfill.ExportReport
	err    error
}

func (a exportAnswer) Report(context.Context, string) (backfill.ExportReport, error) {
	return a.report, a.err
}

// TestH89_DynamoDBProvesThatAnExportIsWhole: if it cannot, an operator must confirm it. An operator
// cannot overrule a filter that DynamoDB reports.
func TestH89_DynamoDBProvesThatAnExportIsWhole(t *testing.T) {
	whole := backfill.ExportReport{JSON: true}
	for name, c := range map[string]struct {
		answer     exportAnswer
		said       bool
		fault, fix string // "": it is accepted
	}{
		"whole":               {answer: exportAnswer{report: whole}},
		"filtered":            {exportAnswer{report: backfill.ExportReport{JSON: true, Part: "a filter"}}, false, "the export has a filter", "export the whole table"},
		"filtered, said":      {exportAnswer{report: backfill.ExportReport{JSON: true, Part: "a filter"}}, true, "the export has a filter", "export the whole table"},
		"in Ion":              {exportAnswer{}, true, "not in DynamoDB JSON", "DYNAMODB_JSON"},
		"unknown":             {exportAnswer{err: &backfill.ExportRefusal{Code: "ExportNotFoundException"}}, false, "no longer has a description", "--whole-export"},
		"unknown, said":       {answer: exportAnswer{err: &backfill.ExportRefusal{Code: "ExportNotFoundException"}}, said: true},
		"denied":              {exportAnswer{err: &cdc.Error{Reason: cdc.Denied}}, false, "dynamodb:DescribeExport", "--whole-export"},
		"no such call":        {exportAnswer{err: &cdc.Error{Reason: cdc.NotFound}}, false, "dynamodb:DescribeExport", "--whole-export"},
		"denied, said":        {answer: exportAnswer{err: &cdc.Error{Reason: cdc.Denied}}, said: true},
		"no answer":           {exportAnswer{err: &cdc.Error{Reason: cdc.Unavailable, Err: errors.New("no route")}}, false, "no route", ""},
		"no answer, but said": {answer: exportAnswer{err: &cdc.Error{Reason: cdc.Unavailable}}, said: true},
	} {
		e := exported{Export: &exports.Export{ARN: "arn"}, address: "s3://b/AWSDynamoDB/1"}
		err := e.Whole(t.Context(), e.address, Proof{c.answer, c.said, "add --whole-export"})
		var told *diag.Error
		switch {
		case c.fault == "":
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		case !errors.As(err, &told):
			if c.fix != "" || !errors.Is(err, c.answer.err) { // the caller explains it
				t.Errorf("%s: %v", name, err)
			}
		case !strings.Contains(told.Error()+told.Cause, c.fault) || !strings.Contains(told.Fix, c.fix):
			t.Errorf("%s: %v, cause %s, fix %s", name, told, told.Cause, told.Fix)
		}
	}
}

// reports answers for each export by the last part of its ARN. The other exports are whole.
type reports map[string]exportAnswer

func (r reports) Report(ctx context.Context, arn string) (backfill.ExportReport, error) {
	if answer, ok := r[path.Base(arn)]; ok {
		return answer.Report(ctx, arn)
	}
	return backfill.ExportReport{JSON: true}, nil
}

// H89: a chain is whole only if each of its exports is. The error names the address of the export
// that is not.
func TestEachExportOfAChainIsProvedWhole(t *testing.T) {
	images, err := Open(t.Context(), archive(t), "s3://b/later", "s3://b/window", "s3://b/full")
	if err == nil {
		images, err = images.Fit(wanted(t))
	}
	if err != nil {
		t.Fatal(err)
	}
	part := exportAnswer{report: backfill.ExportReport{JSON: true, Part: "a filter"}}
	lost := exportAnswer{err: &backfill.ExportRefusal{Code: "ExportNotFoundException"}}
	for name, c := range map[string]struct {
		answers reports
		said    bool
		refused string // the address; "": all are accepted
	}{
		"all are whole":                      {},
		"the full export has a filter":       {reports{"full": part}, false, "s3://b/full"},
		"the window has a filter":            {reports{"window": part}, false, "s3://b/window"},
		"the last window has a filter":       {reports{"later": part}, true, "s3://b/later"},
		"the last window is unknown":         {reports{"later": lost}, false, "s3://b/later"},
		"all are unknown, and confirmed":     {reports{"full": lost, "window": lost, "later": lost}, true, ""},
		"one is confirmed, the next is part": {reports{"full": lost, "window": part}, true, "s3://b/window"},
	} {
		err := images.Whole(t.Context(), Proof{Service: c.answers, Said: c.said, Say: "add --whole-export"})
		var refused *OpenError
		if errors.As(err, &refused) != (c.refused != "") || refused != nil && refused.Address != c.refused || refused == nil && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var told *diag.Error
		if refused != nil && (!errors.As(err, &told) || !strings.Contains(told.Error(), c.refused)) {
			t.Errorf("%s: the error does not name %s: %v", name, c.refused, err)
		}
	}
}
