package preflight

import (
	"errors"
	"io/fs"
	"net/url"
	"strings"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
)

// notLoaded explains why the AWS SDK cannot read its configuration. It names the wrong setting.
func notLoaded(env config.Lookup, err error) error {
	if known := (diag.List)(nil); errors.As(err, &known) {
		return err
	}
	e := &diag.Error{Code: diag.NoAWSCredentials, What: "cannot read the AWS configuration of this environment", Err: err}
	var (
		profile awsconfig.SharedConfigProfileNotExistError
		file    *fs.PathError
		address *url.Error
	)
	where, bundle := environment.CABundle(env)
	switch {
	case errors.As(err, &file) && file.Path == bundle:
		e.Cause, e.Fix = where+" is "+bundle+": "+file.Err.Error(), bundleFix(where)
	// The SDK returns only a text, and no typed error.
	case bundle != "" && strings.Contains(err.Error(), "CA bundle PEM"):
		e.Cause, e.Fix = where+" is "+bundle+": it holds no certificate in PEM form", bundleFix(where)
	case errors.As(err, &profile):
		e.Cause = "AWS profile not found: " + profile.Profile + ", named by AWS_PROFILE or AWS_DEFAULT_PROFILE"
		e.Fix = "correct AWS_PROFILE, or unset it. `aws configure list-profiles` shows this user's profiles; AWS_CONFIG_FILE names another config file"
	case errors.As(err, &address):
		uri, _ := env(containerURI)
		e.Cause, e.Fix = containerURI+" is not a URL ("+environment.WithoutPassword(uri)+")", "write it as http://HOST/PATH, or unset it"
	default:
		remediedByAWS(e)
	}
	return e
}

// containerURI is the environment variable with the only URL that the SDK parses while it reads its
// configuration.
const containerURI = "AWS_CONTAINER_CREDENTIALS_FULL_URI"

func bundleFix(where string) string {
	return "correct " + where + ": name a file of certificates that begin with -----BEGIN CERTIFICATE-----; or remove it if no proxy has its own certificate authority"
}

// halfKey returns the environment variable that has one half of an access key, if the other half is
// missing; else "". The SDK ignores an incomplete key and tries other sources.
func halfKey(env config.Lookup) string {
	value := func(names ...string) string {
		for _, name := range names {
			if v, _ := env(name); v != "" {
				return v
			}
		}
		return ""
	}
	id, secret := value("AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY"), value("AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY")
	switch {
	case id != "" && secret == "":
		return "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is empty"
	case id == "" && secret != "":
		return "AWS_SECRET_ACCESS_KEY is set, but AWS_ACCESS_KEY_ID is empty"
	}
	return ""
}
