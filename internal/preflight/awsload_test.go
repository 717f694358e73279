package preflight

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// The error names the setting that prevents AWS credentials, and shows no secret.
func TestTheSettingAtFaultIsNamed(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	nope, text := filepath.Join(folder, "nope"), write("text.pem", "no certificate")
	profiles := write("config", "[default]\nregion = eu-west-1\n[profile bundle]\nca_bundle = "+nope+"\n[profile half]\naws_access_key_id = AKIDX\n"+
		"[profile token]\nrole_arn = arn:aws:iam::1:role/r\nweb_identity_token_file = eyJSECRETX.e30.x\n")
	keys := map[string]string{"AWS_ACCESS_KEY_ID": "AKIDX", "AWS_SECRET_ACCESS_KEY": "SECRETX"}
	role := map[string]string{"AWS_ROLE_ARN": "arn:aws:iam::1:role/r"}
	for _, c := range []struct {
		name       string
		env, more  map[string]string
		cause, fix string
	}{
		{"a bundle that is missing", keys, map[string]string{"AWS_CA_BUNDLE": nope}, "AWS_CA_BUNDLE is " + nope + ": no such file", "correct AWS_CA_BUNDLE"},
		{"a folder", keys, map[string]string{"AWS_CA_BUNDLE": folder}, "AWS_CA_BUNDLE is " + folder + ": is a directory", "correct AWS_CA_BUNDLE"},
		{"no PEM", keys, map[string]string{"AWS_CA_BUNDLE": text}, "AWS_CA_BUNDLE is " + text + ": it holds no certificate", "correct AWS_CA_BUNDLE"},
		{"a bundle of a profile", keys, map[string]string{"AWS_PROFILE": "bundle"}, "ca_bundle of AWS profile bundle is " + nope, "correct ca_bundle of"},
		{"no such profile", nil, map[string]string{"AWS_PROFILE": "nope"}, "AWS profile not found: nope", "correct AWS_PROFILE"},
		{"half a key", nil, map[string]string{"AWS_ACCESS_KEY_ID": "AKIDX"}, "AWS_SECRET_ACCESS_KEY is empty", "set both"},
		{"the other half", nil, map[string]string{"AWS_SECRET_ACCESS_KEY": "SECRETX"}, "AWS_ACCESS_KEY_ID is empty", "set both"},
		{"half a key of a profile", nil, map[string]string{"AWS_PROFILE": "half"}, "", "aws_secret_access_key"},
		{"no token", role, map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": nope}, nope, "correct AWS_WEB_IDENTITY_TOKEN_FILE"},
		{"a token in place of its file", role, map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": "eyJSECRETX.e30.SECRETX"}, "AWS_WEB_IDENTITY_TOKEN_FILE holds a token", "write its value to a file"},
		{"a token in a profile", nil, map[string]string{"AWS_PROFILE": "token"}, "web_identity_token_file of AWS profile token holds a token", "write its value"},
		{"a token of a container", nil, map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:9/c", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "SECRETX\n"}, "newline", "AWS_CONTAINER_AUTHORIZATION_TOKEN"},
		{"no token of a container", nil, map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:9/c", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": nope}, nope, "correct AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"},
		{"no URL of a container", nil, map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://u:SECRETX%zz@127.0.0.1:9/c"}, "AWS_CONTAINER_CREDENTIALS_FULL_URI is not a URL (http://xxxxx@127.0.0.1:9/c)", "write it as"},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := map[string]string{"AWS_CONFIG_FILE": profiles, "AWS_REGION": "eu-west-1", "AWS_EC2_METADATA_DISABLED": "true"}
			maps.Copy(env, c.env)
			maps.Copy(env, c.more)
			awsEnvironment(t, env)
			source, err := ConnectSource(t.Context(), &config.Config{})
			if err == nil {
				_, err = (&Prober{Source: source}).Credentials(t.Context())
			}
			var e *diag.Error
			if !errors.As(err, &e) || e.Code != diag.NoAWSCredentials || !strings.Contains(e.Facts().Cause, c.cause) || !strings.Contains(e.Fix, c.fix) {
				t.Fatalf("%+v, %v", e, err)
			}
			if strings.Contains(e.Error()+e.Fix, "SECRETX") {
				t.Errorf("a secret is shown: %v", e)
			}
		})
	}
}
