package preflight

import (
	"context"
	"errors"
	"io/fs"

	"google.golang.org/api/option"

	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/exports/bucket"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// OpenExport reads the manifests of the export at an address: from S3 with the credentials of the
// source, from Cloud Storage with those of Google's environment.
func OpenExport(ctx context.Context, s *Source, env config.Lookup, address string) (*exports.Export, error) {
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
		if store, err = bucket.NewCloudStorage(ctx, p, options...); err != nil {
			return nil, err
		}
	default:
		store = exports.Folder(p.Root)
	}
	return exports.Read(ctx, store, p.Folder)
}

// ExportFailed explains why an export cannot be read.
func ExportFailed(address string, err error) error {
	out := &diag.Error{Code: diag.LoadRefused, What: "cannot load the export " + address, Err: err, Fix: "name the folder of one export: a directory, s3:// or gs://, …/AWSDynamoDB/<export id>"}
	var fault *exports.Error
	switch {
	case errors.As(err, &fault):
		out.Fix = fault.Fix
	case errors.Is(err, fs.ErrPermission):
		out.Fix = "allow this identity, and that of the workers, to read the objects of the export: s3:GetObject, or storage.objects.get"
	}
	return out
}
