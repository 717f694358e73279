package environment

import (
	"encoding/json"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/awshost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// GoogleCredentials is the environment variable that names the file of credentials for Google's
// libraries.
const GoogleCredentials = "GOOGLE_APPLICATION_CREDENTIALS"

// awsFiles are the variables that name a file for the AWS SDK. Errors of the SDK quote the values
// of these variables, and a library may log such errors.
var awsFiles = []string{"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_CA_BUNDLE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"}

// proxies are the variables for proxies. Go prefers the first variable of each pair. It silently
// ignores an address that it cannot parse (golang.org/x/net/http/httpproxy).
var proxies = [][]string{{"HTTPS_PROXY", "https_proxy"}, {"HTTP_PROXY", "http_proxy"}}

// CheckAWSVariables finds unusable values before the AWS SDK reads them. Errors of the SDK show
// such a value, and the value may be a secret.
func CheckAWSVariables(env Lookup) error {
	found := checkProxies(env)
	for _, name := range awsFiles {
		value, _ := env(name)
		found = append(found, checkFile(name, value, diag.NoAWSCredentials)...)
	}
	e := awshost.EndpointsOf(env)
	for name, value := range map[string]string{"web_identity_token_file": e.Profile.WebIdentityTokenFile, "ca_bundle": e.Profile.CustomCABundle} {
		found = append(found, checkFile(name+" of AWS profile "+e.Name, value, diag.NoAWSCredentials)...)
	}
	return found.Err()
}

// CheckGoogleVariables finds unusable values before Google's libraries read them, as
// CheckAWSVariables does for AWS.
func CheckGoogleVariables(env Lookup) error {
	value, _ := env(GoogleCredentials)
	return append(checkProxies(env), checkFile(GoogleCredentials, value, diag.NoGCPCredentials)...).Err()
}

// checkFile refuses a setting if its value is not the path of a file. The value is not shown,
// because it is often the secret itself and not the path of its file.
func checkFile(name, value, code string) diag.List {
	holds := insteadOfPath(value)
	if holds == "" {
		return nil
	}
	fix := "write its value to a file that only this user can read, and set " + name + " to the path of that file"
	if holds == withNewline {
		fix = "write only the path; in a shell, $(…) removes a newline at the end"
	}
	return diag.List{{Code: code, What: name + " does not name a file", Cause: name + " " + holds, Fix: fix}}
}

const withNewline = "ends with a newline, which is not part of the path"

// webToken is the form of a JSON Web Token.
var webToken = regexp.MustCompile(`^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*$`)

// insteadOfPath describes, for a message, a value that is not a file's path; "" if it may be a
// path.
func insteadOfPath(value string) string {
	text := strings.TrimSpace(value)
	switch {
	case text == "", exists(value):
		return ""
	case json.Valid([]byte(text)) && strings.ContainsAny(text[:1], "{[\""), strings.HasPrefix(text, "{"):
		return "holds JSON, not the path of a file"
	case strings.Contains(text, "-----BEGIN"):
		return "holds a key or a certificate, not the path of a file"
	case strings.HasPrefix(text, "eyJ") && webToken.MatchString(text):
		return "holds a token, not the path of a file"
	case !isPath(text):
		return "holds text that is not the path of a file"
	case strings.TrimRight(value, "\r\n") != value:
		return withNewline
	}
	return ""
}

// isPath reports whether a text is probably a path of a missing file, so that it may be shown.
func isPath(text string) bool {
	// Maximum length of a path and of each name in it, on common systems.
	const longest, longestName = 1024, 255
	// Maximum length of a path that is a single name; keys and tokens are longer.
	const longestWord = 19
	if len(text) > longest || strings.ContainsAny(text, "{}\"\r\n\x00") || len(text) > longestWord && !strings.ContainsAny(text, `/\.`) {
		return false
	}
	for _, name := range strings.FieldsFunc(text, func(r rune) bool { return r == '/' || r == '\\' }) {
		if len(name) > longestName {
			return false
		}
	}
	return true
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// checkProxies refuses the address of a proxy that Go would ignore or parse as another host. With
// such an address, all requests would bypass the proxy.
func checkProxies(env Lookup) (found diag.List) {
	for _, names := range proxies {
		for _, name := range names {
			value, _ := env(name)
			if value == "" {
				continue
			}
			if !isProxy(value) {
				found = append(found, &diag.Error{Code: diag.ProxyInvalid, What: name + " is not a URL (" + diag.Shortened(WithoutPassword(value)) + ")"})
			}
			break // the second variable has no effect
		}
	}
	return found
}

func isProxy(value string) bool {
	if !strings.Contains(value, "://") {
		value = "http://" + value
	}
	return isURL(value)
}

func isURL(value string) bool {
	u, err := url.Parse(value)
	return err == nil && u.Hostname() != ""
}

// WithoutPassword returns a URL without the user name and password, so that it may be shown. It
// removes everything before the last @ of the host.
func WithoutPassword(address string) string {
	scheme, rest, found := strings.Cut(address, "://")
	if !found {
		scheme, rest = "", address
	} else {
		scheme += "://"
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		return scheme + "xxxxx@" + rest[at+1:]
	}
	return address
}

// CABundle returns the setting that names a file of certificate authorities for the AWS SDK, and
// the path of the file. It returns "" if no setting names one.
func CABundle(env Lookup) (where, path string) {
	e := awshost.EndpointsOf(env)
	if path, _ := env("AWS_CA_BUNDLE"); path != "" {
		return "AWS_CA_BUNDLE", path
	}
	return "ca_bundle of AWS profile " + e.Name, e.Profile.CustomCABundle
}
