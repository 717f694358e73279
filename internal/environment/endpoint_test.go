package environment

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/awshost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// An endpoint that is plain http or not Amazon's counts as an emulator's. One that is plain http on
// another host is also insecure. Each case has a flag.
func TestCheckEndpoint(t *testing.T) {
	const emulator, insecure, malformed = diag.EmulatorNotAllowed, diag.InsecureEndpoint, diag.EmulatorNotAllowed + " "
	for endpoint, want := range map[string]string{
		"https://dynamodb.eu-west-1.amazonaws.com":                 "",
		"https://vpce-0a-1b.dynamodb.eu-west-1.vpce.amazonaws.com": "",
		"https://dynamodb.cn-north-1.amazonaws.com.cn":             "",
		"https://111122223333.ddb.eu-west-1.amazonaws.com":         "",
		"https://dynamodb.eu-west-1.api.aws:443/":                  "",
		"https://DYNAMODB.EU-WEST-1.AMAZONAWS.COM.":                "",
		"https://us-east-1.signin.aws.amazon.com":                  "",
		"https://dynamodb.eu-isoe-west-1.api.cloud-aws.adc-e.uk":   "",
		"https://x.lambda-url.eu-west-1.on.aws":                    emulator,
		"https://ec2-1-2-3-4.compute-1.amazonaws.com":              emulator,
		"https://my-lb-1.us-east-1.elb.amazonaws.com":              emulator,
		"https://amazonaws.com":                                    emulator,
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
		"https://user:secret%zz@evil.example":                      malformed,
		"https://user:secret@evil.example:port":                    malformed,
	} {
		for _, allowed := range []Allowed{{}, {Emulator: true}, {Insecure: true}, Anything} {
			var left []string
			for _, code := range strings.Fields(want) {
				if code == emulator && (!allowed.Emulator || endpoint == "localhost:8000" || want == malformed) || code == insecure && !allowed.Insecure {
					left = append(left, code)
				}
			}
			var got []string
			for _, e := range checkEndpoint("AWS_ENDPOINT_URL", endpoint, allowed) {
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

// The check covers every setting by which the SDK redirects a used service, in the environment and
// in its profile, unless the SDK is set to ignore them.
func TestEachEndpointSettingIsJudged(t *testing.T) {
	const elsewhere, tables, streams = "https://example.org", "https://dynamodb.eu-west-1.amazonaws.com", "https://streams.dynamodb.eu-west-1.amazonaws.com"
	for _, service := range append([]string{""}, awshost.Services...) {
		variable, profile := awshost.AnyService, "endpoint_url = "+elsewhere+"\n"
		if service != "" {
			variable = awshost.OwnVariable(service)
			profile = "services = s\n[services s]\n" + strings.ToLower(strings.ReplaceAll(service, " ", "_")) + " =\n  endpoint_url = " + elsewhere + "\n"
		}
		for name, env := range map[string]map[string]string{
			variable: {awshost.OwnVariable(awshost.Tables): tables, awshost.OwnVariable(awshost.Streams): streams, variable: elsewhere, "AWS_CONFIG_FILE": os.DevNull},
			profile: {awshost.OwnVariable(awshost.Tables): tables, awshost.OwnVariable(awshost.Streams): streams, "AWS_PROFILE": "p",
				"AWS_CONFIG_FILE": profileFile(t, "[profile p]\n"+profile)},
		} {
			env["AWS_SHARED_CREDENTIALS_FILE"] = os.DevNull
			if name == profile && (service == awshost.Tables || service == awshost.Streams) {
				delete(env, awshost.OwnVariable(service))
			}
			found := Check(lookup(env), Allowed{})
			found = slices.DeleteFunc(found, func(e *diag.Error) bool { return e.Code == diag.OneEndpoint }) // the other one is Amazon's
			if len(found) != 1 || found[0].Code != diag.EmulatorNotAllowed {
				t.Errorf("%s: %v", name, found)
			}
			env["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "true"
			if found := Check(lookup(env), Allowed{}); len(found) > 0 {
				t.Errorf("%s is ignored, and refused: %v", name, found)
			}
		}
	}
}

// If only one of the two endpoints is set, the configuration is refused, wherever it is set.
func TestH67OneEndpointOfAProfile(t *testing.T) {
	const local = "http://localhost:8000"
	service := func(names ...string) string {
		text := "services = s\n[services s]\n"
		for _, name := range names {
			text += name + " =\n  endpoint_url = " + local + "\n"
		}
		return text
	}
	for _, c := range []struct {
		name, profile string
		env           map[string]string
		want          string
	}{
		{"tables of a profile", service("dynamodb"), nil, "endpoint_url of dynamodb in the services of AWS profile default is set, but endpoint_url of dynamodb_streams in"},
		{"streams of a profile", service("dynamodb_streams"), nil, "endpoint_url of dynamodb_streams in the services of AWS profile default is set, but endpoint_url of dynamodb in"},
		{"both of a profile", service("dynamodb", "dynamodb_streams"), nil, ""},
		{"all of a profile", "endpoint_url = " + local, nil, ""},
		{"one of each", service("dynamodb_streams"), map[string]string{awshost.OwnVariable(awshost.Tables): local}, ""},
		{"one of the environment", "", map[string]string{awshost.OwnVariable(awshost.Tables): local}, "AWS_ENDPOINT_URL_DYNAMODB is set, but AWS_ENDPOINT_URL_DYNAMODB_STREAMS is not"},
		{"ignored by the environment", service("dynamodb"), map[string]string{"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "TRUE"}, ""},
		{"ignored by the profile", "ignore_configured_endpoint_urls = true", map[string]string{awshost.OwnVariable(awshost.Tables): local}, ""},
		{"ignored by the profile, not by the environment", "ignore_configured_endpoint_urls = true",
			map[string]string{awshost.OwnVariable(awshost.Tables): local, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "false"}, "AWS_ENDPOINT_URL_DYNAMODB is set, but"},
	} {
		env := map[string]string{"AWS_CONFIG_FILE": profileFile(t, "[default]\n"+c.profile+"\n"), "AWS_SHARED_CREDENTIALS_FILE": os.DevNull}
		maps.Copy(env, c.env)
		found := Check(lookup(env), Anything)
		if c.want == "" && len(found) > 0 || c.want != "" && (len(found) != 1 || found[0].Code != diag.OneEndpoint || !strings.HasPrefix(found[0].What, c.want)) {
			t.Errorf("%s: %v, want %q", c.name, found, c.want)
		}
	}
}

// If one of Amazon's endpoints is set for only one service, the other service still uses Amazon's.
// With an emulator, the other must be one too. An endpoint applies to the service that uses it.
func TestEndpointsOfAmazonsAlone(t *testing.T) {
	const (
		table, streams, local = "https://dynamodb.us-east-1.amazonaws.com", "https://streams.dynamodb.us-east-1.amazonaws.com", "http://localhost:8000"
		tableVPC, streamsVPC  = "https://vpce-0a-1b.dynamodb.us-east-1.vpce.amazonaws.com", "https://vpce-0a-1b.streams.dynamodb.us-east-1.vpce.amazonaws.com"
	)
	for _, c := range []struct{ all, table, streams, sts, want string }{
		{"", table, "", "", ""}, {"", "", streams, "", ""}, {"", tableVPC, "", "", ""}, {"", "", streamsVPC, "", ""}, {"", tableVPC, streamsVPC, "", ""},
		{"", "https://dynamodb-fips.us-east-1.amazonaws.com", "", "", ""}, {"", "https://111122223333.ddb.us-east-1.amazonaws.com", "", "", ""},
		{"", local, local, "", ""}, {local, "", "", "https://sts.us-east-1.amazonaws.com", ""},
		{"", local, "", "", "AWS_ENDPOINT_URL_DYNAMODB is set, but AWS_ENDPOINT_URL_DYNAMODB_STREAMS is not"},
		{"", "", local, "", "AWS_ENDPOINT_URL_DYNAMODB_STREAMS is set, but AWS_ENDPOINT_URL_DYNAMODB is not"},
		{"", local, streams, "", "AWS_ENDPOINT_URL_DYNAMODB is set, but AWS_ENDPOINT_URL_DYNAMODB_STREAMS names an AWS endpoint"},
		{"", table, "https://my-lb.us-east-1.elb.amazonaws.com", "", "AWS_ENDPOINT_URL_DYNAMODB_STREAMS is set, but AWS_ENDPOINT_URL_DYNAMODB names an AWS endpoint"},
		{local, table, "", "", "AWS_ENDPOINT_URL is set, but AWS_ENDPOINT_URL_DYNAMODB names an AWS endpoint"},
		{"", streams, "", "", "AWS_ENDPOINT_URL_DYNAMODB sends requests for DynamoDB to an endpoint of DynamoDB Streams (\"streams.dynamodb.us-east-1.amazonaws.com\")"},
		{"", "", tableVPC, "", "AWS_ENDPOINT_URL_DYNAMODB_STREAMS sends requests for DynamoDB Streams to an endpoint of DynamoDB (\"vpce-0a-1b.dynamodb.us-east-1.vpce.amazonaws.com\")"},
		{table, "", "", "", "AWS_ENDPOINT_URL sends requests for DynamoDB Streams to an endpoint of DynamoDB (\"dynamodb.us-east-1.amazonaws.com\")"},
		{table, "", streams, "", ""},
		{"", "", "", "https://s3.us-east-1.amazonaws.com", "AWS_ENDPOINT_URL_STS sends requests for STS to an endpoint of S3 (\"s3.us-east-1.amazonaws.com\")"},
	} {
		env := map[string]string{awshost.AnyService: c.all, awshost.OwnVariable(awshost.Tables): c.table, awshost.OwnVariable(awshost.Streams): c.streams, awshost.OwnVariable("STS"): c.sts,
			"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull}
		found := Check(lookup(env), Anything)
		if c.want == "" && len(found) > 0 || c.want != "" && (len(found) != 1 || found[0].Code != diag.OneEndpoint || found[0].What != c.want) {
			t.Errorf("%+v: %v", c, found)
		}
	}
}

// AWS rejects a request that is signed for another region than its endpoint's.
func TestEndpointOfAnotherRegion(t *testing.T) {
	for endpoint, refused := range map[string]bool{
		"https://dynamodb.us-east-1.amazonaws.com": false, "https://vpce-0a-1b.streams.dynamodb.us-east-1.vpce.amazonaws.com": false, "": false,
		"http://localhost:8000": false, "https://sts.amazonaws.com": false, "https://my-lb.eu-west-1.elb.amazonaws.com": false,
		"https://dynamodb.eu-west-1.amazonaws.com": true, "https://streams-dynamodb.eu-west-1.api.aws": true, "https://111122223333.ddb.us-east-2.amazonaws.com": true,
	} {
		if err := CheckEndpointRegion(endpoint, "us-east-1"); (err != nil) != refused {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

// profileFile writes the file of an AWS profile.
func profileFile(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
