package config

import (
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// An endpoint that is http or none of Amazon's is an emulator's, and one that is http on another host is insecure besides: each has a flag.
func TestCheckEndpoint(t *testing.T) {
	const emulator, insecure = diag.EmulatorNotAllowed, diag.InsecureEndpoint
	for endpoint, want := range map[string]string{
		"https://dynamodb.eu-west-1.amazonaws.com":                 "",
		"https://vpce-0a-1b.dynamodb.eu-west-1.vpce.amazonaws.com": "",
		"https://dynamodb.cn-north-1.amazonaws.com.cn":             "",
		"https://111122223333.ddb.eu-west-1.amazonaws.com":         "",
		"https://dynamodb.eu-west-1.api.aws:443/":                  "",
		"https://DYNAMODB.EU-WEST-1.AMAZONAWS.COM.":                "",
		"http://dynamodb.eu-west-1.amazonaws.com":                  emulator + " " + insecure,
		"https://dynamodb.eu-west-1.amazonaws.com.example.org":     emulator,
		"https://notamazonaws.com":                                 emulator,
		"https://127.0.0.1:8000":                                   emulator,
		"http://127.0.0.1:8000":                                    emulator,
		"http://[::1]:8000":                                        emulator,
		"http://LOCALHOST:8000":                                    emulator,
		"http://dynamodb.localhost:4566":                           emulator,
		"http://dynamodb-local:8000":                               emulator + " " + insecure,
		"http://10.0.0.7:8000":                                     emulator + " " + insecure,
		"ftp://10.0.0.7":                                           emulator + " " + insecure,
		"localhost:8000":                                           emulator,
		"https://user:secret@evil.example/?token=secret":           emulator,
	} {
		for _, allowed := range []Allowed{{}, {Emulator: true}, {Insecure: true}, Anything} {
			var left []string
			for _, code := range strings.Fields(want) {
				if code == emulator && (!allowed.Emulator || endpoint == "localhost:8000") || code == insecure && !allowed.Insecure {
					left = append(left, code)
				}
			}
			var got []string
			for _, e := range CheckEndpoint("AWS_ENDPOINT_URL", endpoint, allowed) {
				got = append(got, e.Code)
				if strings.Contains(e.Error()+e.Fix, "secret") {
					t.Errorf("%s: the error tells a password: %v", endpoint, e)
				}
			}
			if strings.Join(got, " ") != strings.Join(left, " ") {
				t.Errorf("%s with %+v: %v, want %v", endpoint, allowed, got, left)
			}
		}
	}
}

// Each variable by which the SDK redirects a service that is asked is looked at, unless the SDK is set to ignore them.
func TestEachEndpointVariableIsJudged(t *testing.T) {
	for _, name := range serviceEndpoints {
		env := map[string]string{name: "https://example.org", tableEndpoint: "https://dynamodb.eu-west-1.amazonaws.com",
			streamsEndpoint: "https://streams.dynamodb.eu-west-1.amazonaws.com"}
		env[name] = "https://example.org"
		found := CheckEnvironment(lookup(env), Allowed{})
		if len(found) != 1 || found[0].Code != diag.EmulatorNotAllowed || !strings.HasPrefix(found[0].What, name+" ") {
			t.Errorf("%s: %v", name, found)
		}
		env["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "true"
		if found := CheckEnvironment(lookup(env), Allowed{}); len(found) > 0 {
			t.Errorf("%s is ignored, and refused: %v", name, found)
		}
	}
}
