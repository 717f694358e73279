package preflight

import (
	"encoding/json"
	"errors"
	"io/fs"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
)

// service is a Google service, with the APIs that must be enabled for it.
type service struct{ name, apis string }

var (
	bigtableService = service{"Bigtable", "bigtable.googleapis.com bigtableadmin.googleapis.com"}
	pubsubService   = service{"Pub/Sub", "pubsub.googleapis.com"}
	storageService  = service{"Cloud Storage", "storage.googleapis.com"}
)

// remedy is the fix for a cause that several of Google's services and libraries can report.
type remedy struct {
	cause string // for readers of this code
	met   func(err error, said string) bool
	code  string // new code of the error; "" to keep the error's own code
	fix   string // {apis} is replaced by the service's APIs
	where place
}

// place is the part of the environment in which a cause can occur.
type place uint8

const (
	anywhere place = iota
	inFile         // in the credentials file; the error may not name the file
	atFile         // the same, but only while a client is opened; later, other files are read
)

const credentialsVariable = environment.GoogleCredentials

// clockFix is the fix for a certificate or a token that is not valid at the time of this host's
// clock.
const clockFix = "check the clock of this host, and set it (timedatectl set-ntp true); if it is right, a proxy has an expired certificate"

// remedies are tried in order. The first match counts.
var remedies = []remedy{
	{"credentials file missing", isFile(fs.ErrNotExist, "no such file or directory"), diag.NoGCPCredentials,
		"correct " + credentialsVariable + ", or unset it and run `gcloud auth application-default login`", atFile},
	{"credentials file unreadable", isFile(fs.ErrPermission, "permission denied"), diag.NoGCPCredentials,
		"allow this user to read the file that " + credentialsVariable + " names", atFile},
	{"credentials file is a folder", says("is a directory"), diag.NoGCPCredentials,
		"set " + credentialsVariable + " to the file, not to its folder", atFile},
	{"credentials file cut off", isJSON, diag.NoGCPCredentials, notWhole, atFile},
	{"credentials file of an unknown kind", says("unsupported unidentified file type", "unsupported filetype", "unknown credential type",
		"missing 'type' field in credentials", "could not parse key", "failed to parse private key", "private key should be a pem",
		"unable to parse credential source", "refresh token is not set"),
		diag.NoGCPCredentials, madeByGoogle, inFile},
	{"no credentials at all", says("could not find default credentials"), diag.NoGCPCredentials, "", anywhere},
	{"wrong clock", says("reasonable timeframe", "short-lived token", "certificate has expired or is not yet valid", "token used too early"), diag.ClockWrong,
		clockFix, anywhere},
	{"login or key revoked", says("invalid_grant", "invalid_rapt", "account_not_found", "deleted_client"), diag.NoGCPCredentials,
		"run `gcloud auth application-default login` again, or create a new key; check the clock of this host too", anywhere},
	{"metadata server", says("computemetadata", "compute: received", "metadata.google.internal", "169.254.169.254", "metadata: gce metadata"), diag.NoGCPCredentials,
		"allow this host to reach its metadata server (169.254.169.254), with a service account attached; elsewhere set " + credentialsVariable, anywhere},
	{"no token service", tokenServiceAway, diag.NoGCPCredentials,
		"allow this host to reach the token service named above; behind a proxy set HTTPS_PROXY", anywhere},
	{"unknown authority", says("certificate signed by unknown authority"), "",
		"install the certificate authority of the proxy on this host, or name its file in SSL_CERT_FILE", anywhere},
	{"no quota project", says("requires a quota project"), "",
		"gcloud auth application-default set-quota-project PROJECT", anywhere},
	{"API not enabled", says("has not been used in", "service_disabled", "or it is disabled"), "",
		"gcloud services enable {apis} --project=PROJECT, then wait some minutes", anywhere},
	{"project may not be used", says("serviceusage", "user_project_denied", "permission to use project"), "",
		"grant roles/serviceusage.serviceUsageConsumer on the project named in the cause", anywhere},
	{"service perimeter", says("vpcservicecontrols", "prohibited by organization's policy", "prohibited by the organization's policy"), "",
		"ask the administrators of VPC Service Controls to admit this identity and network; search the audit log for the identifier above", anywhere},
	{"billing", says("billing to be enabled", "billing account", "billing_disabled", "billing is disabled"), "",
		"enable billing for the project: gcloud billing projects link PROJECT --billing-account=ACCOUNT", anywhere},
	{"too many tables", says("tables per instance"), "",
		"remove unused tables, or use another instance; the console shows quotas under IAM & Admin, Quotas", anywhere},
	{"quota", says("quota exceeded", "quota metric", "rate_limit_exceeded"), "",
		"wait, or raise the quota named in the cause: in the console under IAM & Admin, Quotas", anywhere},
	{"no token from the file", func(err error, said string) bool {
		return strings.Contains(said, "per-rpc creds failed") && !ofNetwork(err) && !away(nil, said)
	},
		diag.NoGCPCredentials, madeByGoogle, inFile},
	{"credentials not accepted", says("invalid authentication credentials"), "",
		"check that the key still exists (gcloud iam service-accounts keys list), and check the clock of this host", anywhere},
	{"fault of the service", func(err error, _ string) bool { return faultOfGoogle(err) }, "",
		"wait, then try again: the service answered with an internal error; https://status.cloud.google.com shows known ones", anywhere},
}

// remedied adds to an error of a service the code and the fix for its cause, if the cause is known.
func (s service) remedied(e *diag.Error) *diag.Error { return s.remedy(e, false) }

// notOpened does the same as remedied, for an error while a client was opened. Opening a client
// reads the credentials file, so causes in that file are also considered.
func (s service) notOpened(e *diag.Error) *diag.Error { return s.remedy(e, true) }

func (s service) remedy(e *diag.Error, opening bool) *diag.Error {
	said := e.Err.Error()
	where, path := credentialsFile()
	for _, r := range remedies {
		if r.where == atFile && !opening || !r.met(e.Err, strings.ToLower(said)) {
			continue
		}
		if r.code != "" {
			e.Code = r.code
		}
		e.Fix = strings.ReplaceAll(r.fix, "{apis}", s.apis)
		if r.where != anywhere && path != "" {
			e.Cause = said + " (" + where + " is " + path + ")"
		}
		if is, fix := contentFault(path); r.fix == notWhole && is != "" {
			e.Cause, e.Fix = where+" is "+path+": "+is, fix
		}
		return e
	}
	if opening && path != "" && !ofNetwork(e.Err) {
		e.Code, e.Fix = diag.NoGCPCredentials, madeByGoogle
		e.Cause = said + " (" + where + " is " + path + ")"
	}
	return e
}

// says returns a function that reports whether a text contains one of the words.
func says(words ...string) func(error, string) bool {
	return func(_ error, said string) bool {
		for _, w := range words {
			if strings.Contains(said, w) {
				return true
			}
		}
		return false
	}
}

// isFile returns a function that reports whether an error means that a file cannot be opened. It
// recognizes the typed reason, or the given words if a library returns only a text.
func isFile(reason error, words string) func(error, string) bool {
	return func(err error, said string) bool {
		var path *fs.PathError
		return errors.As(err, &path) && errors.Is(path, reason) || strings.Contains(said, words)
	}
}

// isJSON reports whether an error means that text is not valid JSON.
func isJSON(err error, said string) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return errors.As(err, &syntax) || errors.As(err, &kind) || says("end of json input", "cannot unmarshal", "invalid character")(err, said)
}

// away reports whether an error means that a service could not be reached.
var away = says("dial tcp", "proxyconnect", "no such host", "timeout", "deadline exceeded", "connection refused", "eof")

// tokenServiceAway reports whether a service that issues tokens could not be reached.
func tokenServiceAway(_ error, said string) bool {
	issuer := says("oauth2.googleapis.com", "sts.googleapis.com", "iamcredentials.googleapis.com")
	return strings.Contains(said, "no token from") || issuer(nil, said) && away(nil, said)
}
