package environment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// If a variable holds something other than a path, the variable is named and its value is never
// shown. A path is accepted whether or not the file exists, because the check is left to the
// opener.
func TestVariablesThatNameFiles(t *testing.T) {
	odd := filepath.Join(t.TempDir(), "{odd}\n")
	if err := os.WriteFile(odd, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{
		"":                                       "",
		"/etc/key.json":                          "",
		"key.json":                               "",
		"./key":                                  "",
		`C:\Users\me\key.json`:                   "",
		odd:                                      "",
		"/etc/key.json\n":                        "ends with a newline",
		`{"private_key":"SECRETX"}`:              "holds JSON",
		"{\n  \"private_key\": \"SECRETX":        "holds JSON",
		`["SECRETX"]`:                            "holds JSON",
		"-----BEGIN PRIVATE KEY-----\nSECRETX\n": "holds a key or a certificate",
		"eyJhbGciOi.SECRETX.SECRETX":             "holds a token",
		"eyJhbGciOi.SECRETX.SECRETX\n":           "holds a token",
		strings.Repeat("SECRETX/", 200):          "holds text",
		strings.Repeat("SECRETX.", 40):           "holds text",
		"AKIASECRETXSECRETX00":                   "holds text",
		"none":                                   "",
		"SECRETX\n/x":                            "holds text",
	} {
		for name, check := range map[string]func(Lookup) error{
			GoogleCredentials:             CheckGoogleVariables,
			"AWS_WEB_IDENTITY_TOKEN_FILE": CheckAWSVariables,
			"AWS_CA_BUNDLE":               CheckAWSVariables,
		} {
			err := check(noProfile(map[string]string{name: value}))
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), name+" "+want)) {
				t.Errorf("%s of %q: %v, want %q", name, value, err, want)
			}
			if err != nil && strings.Contains(err.Error(), "SECRETX") {
				t.Errorf("%q is shown: %v", value, err)
			}
		}
	}
}

// A proxy that Go would ignore, or read as another host, is refused, and its password is not shown.
func TestProxies(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"HTTPS_PROXY": "http://user:s3cret%25zz@127.0.0.1:9"}, ""},
		{map[string]string{"HTTPS_PROXY": "proxy.corp:3128"}, ""},
		{map[string]string{"HTTPS_PROXY": "user:s3cret@proxy.corp:3128"}, ""},
		{map[string]string{"HTTPS_PROXY": "10.0.0.1:3128"}, ""},
		{map[string]string{"HTTPS_PROXY": "socks5://proxy:1080"}, ""},
		{map[string]string{"HTTPS_PROXY": "http://user:s3cret%zz@127.0.0.1:9"}, "HTTPS_PROXY is not a URL (\"http://xxxxx@127.0.0.1:9\")"},
		{map[string]string{"HTTPS_PROXY": "http://user:s3cret#x@127.0.0.1:9"}, "HTTPS_PROXY is not a URL (\"http://xxxxx@127.0.0.1:9\")"},
		{map[string]string{"HTTPS_PROXY": "http://user:s3cret/x@127.0.0.1:9"}, "HTTPS_PROXY is not a URL"},
		{map[string]string{"https_proxy": "user:s3cret%zz@127.0.0.1:9"}, "https_proxy is not a URL (\"xxxxx@127.0.0.1:9\")"},
		{map[string]string{"HTTPS_PROXY": "http://proxy:1", "https_proxy": "http://%zz"}, ""}, // the other variable is not used
		{map[string]string{"HTTP_PROXY": "http://"}, "HTTP_PROXY is not a URL"},
		{map[string]string{"http_proxy": "http://proxy:port"}, "http_proxy is not a URL"},
	} {
		for name, err := range map[string]error{
			"the environment": Check(noProfile(c.env), Anything).Err(), "AWS": CheckAWSVariables(noProfile(c.env)), "Google": CheckGoogleVariables(noProfile(c.env)),
		} {
			if c.want == "" && err != nil || c.want != "" && (!diag.Has(err, diag.ProxyInvalid) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, %s: %v", c.env, name, err)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("a password is shown: %v", err)
			}
		}
	}
}
