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
	"github.com/dynamodb-bigtable/replicator/internal/source"
)

// OpenFolder opens a folder: in S3 with the credentials of the source, in Cloud Storage with
// Google's default credentials. It returns the folder's name in the store.
func (s *Source) OpenFolder(ctx context.Context, env config.Lookup, address string) (store source.Store, name string, err error) {
	p, err := bucket.Parse(address)
	if err != nil {
		return nil, "", err
	}
	switch p.Scheme {
	case bucket.S3:
		store = bucket.NewS3(s.config, p, s.s3...)
	case bucket.CloudStorage:
		var options []option.ClientOption
		if host, _ := env("STORAGE_EMULATOR_HOST"); host != "" {
			options = append(options, option.WithEndpoint("http://"+host+"/storage/v1/"), option.WithoutAuthentication())
		}
		if err := checkGoogle("STORAGE_EMULATOR_HOST"); err != nil {
			return nil, "", err
		}
		if store, err = bucket.NewCloudStorage(ctx, p, options...); err != nil {
			return nil, "", storageService.notOpened(&diag.Error{Code: diag.LoadRefused, What: "cannot load the export " + address, Err: err})
		}
	default:
		store = exports.Folder(p.Root)
	}
	return store, p.Folder, nil
}

// ImagesFailed explains why the export of a load cannot be read.
func ImagesFailed(address string, err error) error {
	if told := (*diag.Error)(nil); errors.As(err, &told) {
		return err
	}
	out := &diag.Error{Code: diag.LoadRefused, What: "cannot load the " + source.Noun(address) + " " + address, Err: err, Fix: source.Naming(address)}
	var fault *source.Fault
	switch {
	case errors.As(err, &fault):
		out.Fix = fault.Fix
	case errors.Is(err, fs.ErrPermission):
		out.Fix = "allow this identity and the workers to read the objects of the " + source.Noun(address) + ": s3:GetObject, or storage.objects.get"
	}
	switch p, _ := bucket.Parse(source.Folder(address)); p.Scheme {
	case bucket.CloudStorage:
		return storageService.remedied(out)
	case bucket.S3:
		remediedByAWS(out)
	}
	return out
}
