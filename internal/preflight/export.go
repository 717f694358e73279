package preflight

import (
	"context"
	"errors"
	"io/fs"

	"google.golang.org/api/option"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/exports/bucket"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// OpenExport reads the manifests of the export at an address: from S3 with the credentials of the
// source, from Cloud Storage with those of Google's environment.
func (s *Source) OpenExport(ctx context.Context, env config.Lookup, address string) (*exports.Export, error) {
	p, err := bucket.Parse(address)
	if err != nil {
		return nil, err
	}
	var store exports.Store
	switch p.Scheme {
	case bucket.S3:
		store = bucket.NewS3(s.config, p)
	case bucket.CloudStorage:
		var options []option.ClientOption
		if host, _ := env("STORAGE_EMULATOR_HOST"); host != "" {
			options = append(options, option.WithEndpoint("http://"+host+"/storage/v1/"), option.WithoutAuthentication())
		}
		if err := checkGoogle("STORAGE_EMULATOR_HOST"); err != nil {
			return nil, err
		}
		if store, err = bucket.NewCloudStorage(ctx, p, options...); err != nil {
			return nil, storageService.notOpened(&diag.Error{Code: diag.LoadRefused, What: "cannot load the export " + address, Err: err})
		}
	default:
		store = exports.Folder(p.Root)
	}
	return exports.Read(ctx, store, p.Folder)
}

// ExportFailed explains why an export cannot be read.
func ExportFailed(address string, err error) error {
	if told := (*diag.Error)(nil); errors.As(err, &told) {
		return err
	}
	out := &diag.Error{Code: diag.LoadRefused, What: "cannot load the export " + address, Err: err, Fix: "name the folder of one export: a directory, s3:// or gs://, …/AWSDynamoDB/<export id>"}
	var fault *exports.Error
	switch {
	case errors.As(err, &fault):
		out.Fix = fault.Fix
	case errors.Is(err, fs.ErrPermission):
		out.Fix = "allow this identity and the workers to read the objects of the export: s3:GetObject, or storage.objects.get"
	}
	switch p, _ := bucket.Parse(address); p.Scheme {
	case bucket.CloudStorage:
		return storageService.remedied(out)
	case bucket.S3:
		remediedByAWS(out)
	}
	return out
}

// ExportReporter says what the service knows of an export; *backfill.Exporter is one.
type ExportReporter interface {
	Report(ctx context.Context, arn string) (backfill.ExportReport, error)
}

// WholeExport fails unless an export shows the whole table: partial images, or rows that are
// missing, no sweep could tell from what the application wrote (H89). Neither the files nor a copy of
// them say it, but DynamoDB does. Of an export that it does not know any more, or about which this
// identity may not ask, the operator has to say it: say is how.
func WholeExport(ctx context.Context, service ExportReporter, address, arn string, said bool, say string) error {
	report, err := service.Report(ctx, arn)
	refused := &diag.Error{Code: diag.LoadRefused, What: "cannot load the export " + address}
	var unknown *backfill.ExportRefusal
	switch {
	case err == nil && report.Part != "":
		refused.Cause = "DynamoDB reports that the export has " + report.Part + ", so rows or attributes are missing"
		refused.Fix = "export the whole table, without filter, projection or key conditions"
		return refused
	case err == nil && !report.JSON:
		refused.Cause, refused.Fix = "DynamoDB reports that the export is not in DynamoDB JSON", "export again: aws dynamodb export-table-to-point-in-time --export-format DYNAMODB_JSON"
		return refused
	case err == nil || said:
		return nil
	case errors.As(err, &unknown):
		refused.Cause = "its files do not show whether it has a filter or a projection, and DynamoDB no longer knows the export"
	case cdc.Is(err, cdc.Denied), cdc.Is(err, cdc.NotFound):
		refused.Cause = "its files do not show whether it has a filter or a projection, and this identity lacks the permission dynamodb:DescribeExport"
	default:
		return ExplainSource("cannot verify that the export "+address+" contains the whole table", "", err)
	}
	refused.Err, refused.Fix = err, "if the export has no filter, projection or key conditions, "+say
	return refused
}
