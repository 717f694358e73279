package backfill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// ExportAPI is what an Exporter uses of *dynamodb.Client. Build the client with ClientOptions.
type ExportAPI interface {
	DescribeContinuousBackups(context.Context, *dynamodb.DescribeContinuousBackupsInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeContinuousBackupsOutput, error)
	ExportTableToPointInTime(context.Context, *dynamodb.ExportTableToPointInTimeInput, ...func(*dynamodb.Options)) (*dynamodb.ExportTableToPointInTimeOutput, error)
	DescribeExport(context.Context, *dynamodb.DescribeExportInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeExportOutput, error)
}

// Exporter asks DynamoDB for exports of tables to S3, and looks after them. Calls are as those of
// Tables.
type Exporter struct{ api ExportAPI }

// NewExporter asks through a client that was built with ClientOptions.
func NewExporter(api ExportAPI) *Exporter { return &Exporter{api} }

// Recovery is a table's point-in-time recovery, which exports rest on. Times are on the service's
// clock.
type Recovery struct {
	On bool
	// From and To are the earliest and the latest time that can be restored.
	From, To time.Time
}

// Recovery says whether point-in-time recovery of the table is on.
func (e *Exporter) Recovery(ctx context.Context, table string) (Recovery, error) {
	const op = "DescribeContinuousBackups"
	out, err := ask(ctx, e.api.DescribeContinuousBackups, &dynamodb.DescribeContinuousBackupsInput{TableName: &table})
	if err != nil {
		return Recovery{}, failure(ctx, op, err, false)
	}
	if out.ContinuousBackupsDescription == nil || out.ContinuousBackupsDescription.PointInTimeRecoveryDescription == nil {
		return Recovery{}, malformed(op, errors.New("the answer does not describe point-in-time recovery"))
	}
	d := out.ContinuousBackupsDescription.PointInTimeRecoveryDescription
	return Recovery{d.PointInTimeRecoveryStatus == types.PointInTimeRecoveryStatusEnabled, aws.ToTime(d.EarliestRestorableDateTime), aws.ToTime(d.LatestRestorableDateTime)}, nil
}

// ExportOrder is what a full export is asked for with, in DynamoDB JSON and of the whole table.
type ExportOrder struct {
	TableARN       string
	Bucket, Prefix string
	// At is the time that it is to show; the service knows whole seconds.
	At time.Time
	// Token makes the same order within eight hours the same export.
	Token string
}

// ExportReport is what the service says of an export.
type ExportReport struct {
	ARN string
	// Done tells that its files are complete, and Failed that there will be none, with the cause.
	Done   bool
	Failed string
	// Bucket and Manifest are where its manifest-summary.json lies, once it is done.
	Bucket, Manifest string
	// Part says what keeps it from showing the whole table; "" if nothing does.
	Part string
	// JSON tells that it is in DynamoDB JSON.
	JSON bool
}

// ExportRefusal is a refusal that the same order meets again.
type ExportRefusal struct{ Code, Message string }

func (e *ExportRefusal) Error() string { return e.Code + ": " + e.Message }

// OfTime tells that the time cannot be exported: it is before what point-in-time recovery reaches
// back to, or after its latest, which lags behind the present.
func (e *ExportRefusal) OfTime() bool { return e.Code == "InvalidExportTimeException" }

// Unknown tells that the service knows no such export.
func (e *ExportRefusal) Unknown() bool { return e.Code == "ExportNotFoundException" }

// exportRefusals are the codes of an ExportRefusal. The service's own references list them for
// ExportTableToPointInTime and DescribeExport.
var exportRefusals = []string{"PointInTimeRecoveryUnavailableException", "InvalidExportTimeException", "ExportConflictException", "ExportNotFoundException", "ValidationException"}

// Request asks for an export, and fails with an *ExportRefusal if the service does not take one.
func (e *Exporter) Request(ctx context.Context, o ExportOrder) (ExportReport, error) {
	const op = "ExportTableToPointInTime"
	in := &dynamodb.ExportTableToPointInTimeInput{
		TableArn: &o.TableARN, S3Bucket: &o.Bucket, ExportTime: &o.At, ClientToken: &o.Token,
		ExportFormat: types.ExportFormatDynamodbJson, ExportType: types.ExportTypeFullExport,
	}
	if o.Prefix != "" {
		in.S3Prefix = &o.Prefix
	}
	out, err := ask(ctx, e.api.ExportTableToPointInTime, in)
	if err != nil {
		return ExportReport{}, exportFailure(ctx, op, err)
	}
	return reportOf(op, out.ExportDescription)
}

// Report says how far an export is, and fails with an *ExportRefusal if the service does not know it.
func (e *Exporter) Report(ctx context.Context, arn string) (ExportReport, error) {
	const op = "DescribeExport"
	out, err := ask(ctx, e.api.DescribeExport, &dynamodb.DescribeExportInput{ExportArn: &arn})
	if err != nil {
		return ExportReport{}, exportFailure(ctx, op, err)
	}
	return reportOf(op, out.ExportDescription)
}

func exportFailure(ctx context.Context, op string, err error) error {
	var answer smithy.APIError
	if ctx.Err() == nil && errors.As(err, &answer) && slices.Contains(exportRefusals, answer.ErrorCode()) {
		return fmt.Errorf("%s: %w", op, &ExportRefusal{answer.ErrorCode(), answer.ErrorMessage()})
	}
	return failure(ctx, op, err, false)
}

func reportOf(op string, d *types.ExportDescription) (ExportReport, error) {
	if d == nil || aws.ToString(d.ExportArn) == "" {
		return ExportReport{}, malformed(op, errors.New("the answer does not describe an export"))
	}
	r := ExportReport{ARN: *d.ExportArn, Bucket: aws.ToString(d.S3Bucket), Manifest: aws.ToString(d.ExportManifest), JSON: d.ExportFormat == types.ExportFormatDynamodbJson,
		Part: partOf(d.FilterSpecification)}
	switch d.ExportStatus {
	case types.ExportStatusCompleted:
		if r.Done = true; r.Manifest == "" || r.Bucket == "" {
			return ExportReport{}, malformed(op, errors.New("a completed export without a manifest"))
		}
	case types.ExportStatusFailed:
		r.Failed = aws.ToString(d.FailureCode) + ": " + aws.ToString(d.FailureMessage)
	case types.ExportStatusInProgress:
	default:
		return ExportReport{}, malformed(op, fmt.Errorf("an export of the unknown status %q", d.ExportStatus))
	}
	return r, nil
}

// partOf names what a specification leaves out. One that the service would add members to is never
// taken for none.
func partOf(f *types.FilterSpecification) string {
	switch {
	case f == nil:
		return ""
	case f.ProjectionExpression != nil:
		return "a projection"
	case f.KeyConditionExpression != nil:
		return "a condition on keys"
	}
	return "a filter"
}
