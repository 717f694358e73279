package source

import (
	"context"
	"errors"
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
		"unknown":             {exportAnswer{err: &backfill.ExportRefusal{Code: "ExportNotFoundException"}}, false, "no longer knows", "--whole-export"},
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
