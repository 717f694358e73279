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

// ExportAPI is the part of *dynamodb.Client that an Exporter uses. The caller must build the client
// with ClientOptions.
type ExportAPI interface {
	DescribeContinuousBackups(context.Context, *dynamodb.DescribeContinuousBackupsInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeContinuousBackupsOutput, error)
	ExportTableToPointInTime(context.Context, *dynamodb.ExportTableToPointInTimeInput, ...func(*dynamodb.Options)) (*dynamodb.ExportTableToPointInTimeOutput, error)
	DescribeExport(context.Context, *dynamodb.DescribeExportInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeExportOutput, error)
}

// Exporter requests exports of tables from DynamoDB to S3, and reads their progress. The calls of
// an Exporter behave like the calls of Tables.
type Exporter struct {
	api    ExportAPI
	bucket ExportBucket
}

// NewExporter returns an Exporter that uses a client built with ClientOptions.
func NewExporter(api ExportAPI) *Exporter { return &Exporter{api: api} }

// Recovery is a table's point-in-time recovery, which exports require. Times are on the service's
// clock.
type Recovery struct {
	On bool
	// From and To are the earliest and the latest time that can be restored.
	From, To time.Time
}

// Recovery is the state of the table's point-in-time recovery.
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

// ExportOrder is the request for an export of the whole table in DynamoDB JSON: a full export, or an
// incremental export with old and new images.
type ExportOrder struct {
	TableARN       string
	Bucket, Prefix string
	// From is the beginning of an incremental export; zero for a full export. At is the time that
	// the export shows, or the end of the incremental export. The service uses whole seconds.
	From, At time.Time
	// Token makes the request idempotent. Within eight hours, the same order gives the same export.
	Token string
}

// ExportReport is the service's description of an export.
type ExportReport struct {
	ARN string
	// Done reports that the files are complete. Failed is the cause if there will be no files.
	Done   bool
	Failed string
	// Bucket and Manifest locate the export's manifest-summary.json once the export is done.
	Bucket, Manifest string
	// Part explains why the export does not show the whole table; "" if it does.
	Part string
	// JSON reports that the export is in DynamoDB JSON.
	JSON bool
}

// ExportRefusal is the rejection of an order. A retry of the same order would be rejected again.
type ExportRefusal struct{ Code, Message string }

func (e *ExportRefusal) Error() string { return e.Code + ": " + e.Message }

// OfTime reports whether the export's time was rejected. Such a time is before the earliest or
// after the latest restorable time. The latest restorable time lags behind the present.
func (e *ExportRefusal) OfTime() bool { return e.Code == "InvalidExportTimeException" }

// Unknown reports whether the service has no such export.
func (e *ExportRefusal) Unknown() bool { return e.Code == "ExportNotFoundException" }

// exportRefusals are the codes of an ExportRefusal. The service's own references list them for
// ExportTableToPointInTime and DescribeExport.
var exportRefusals = []string{"PointInTimeRecoveryUnavailableException", "InvalidExportTimeException", "ExportConflictException", "ExportNotFoundException", "ValidationException"}

// Request requests an export. The error is *ExportRefusal if the service rejects it.
func (e *Exporter) Request(ctx context.Context, o ExportOrder) (ExportReport, error) {
	const op = "ExportTableToPointInTime"
	in := &dynamodb.ExportTableToPointInTimeInput{
		TableArn: &o.TableARN, S3Bucket: &o.Bucket, ExportTime: &o.At, ClientToken: &o.Token,
		ExportFormat: types.ExportFormatDynamodbJson, ExportType: types.ExportTypeFullExport,
	}
	if !o.From.IsZero() {
		in.ExportTime, in.ExportType = nil, types.ExportTypeIncrementalExport
		in.IncrementalExportSpecification = &types.IncrementalExportSpecification{ExportFromTime: &o.From, ExportToTime: &o.At, ExportViewType: types.ExportViewTypeNewAndOldImages}
	}
	if o.Prefix != "" {
		in.S3Prefix = &o.Prefix
	}
	e.bucket.describe(in)
	out, err := ask(ctx, e.api.ExportTableToPointInTime, in)
	if err != nil {
		return ExportReport{}, exportFailure(ctx, op, err)
	}
	return reportOf(op, out.ExportDescription)
}

// Report returns the state of an export. The error is *ExportRefusal if the service does not know
// it.
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
			return ExportReport{}, malformed(op, errors.New("the completed export has no manifest"))
		}
	case types.ExportStatusFailed:
		r.Failed = aws.ToString(d.FailureCode) + ": " + aws.ToString(d.FailureMessage)
	case types.ExportStatusInProgress:
	default:
		return ExportReport{}, malformed(op, fmt.Errorf("the export has the unknown status %q", d.ExportStatus))
	}
	return r, nil
}

// partOf describes the filter of an export. A filter with members that this version does not know
// also counts as a filter of a part.
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
