package cutover

import (
	"strings"
	"testing"
)

// What a hook prints may hold credentials, in any of the forms in which tools print them. What helps
// to find the cause stays.
func TestRedact(t *testing.T) {
	const secret = "S3cr3tV4lue4711"
	for _, text := range []string{
		"+ curl -H 'Authorization: Bearer " + secret + "' https://flags.example/switch",
		"authorization=" + secret, `{"password": "` + secret + `", "stage": "live"}`, "export DB_PASSWORD=" + secret,
		"Set-Cookie: id=" + secret + "; Path=/", "flagctl --api-key " + secret + " switch", "API_KEY=" + secret, "api_key: " + secret,
		"GET https://flags.example/switch?sig=" + secret + "&x=1", "postgres://app:" + secret + "@db.example:5432/app",
		"AWS_SECRET_ACCESS_KEY=" + secret, "client_secret='" + secret + " and more'", "-----BEGIN PRIVATE KEY-----\n" + secret,
		"eyJhbGciOi" + secret + "." + secret + ".x", "sk-" + secret, strings.Repeat(secret, 3),
	} {
		if got := Redact(text); strings.Contains(got, secret) || !strings.Contains(got, "[redacted]") {
			t.Errorf("%q became %q", text, got)
		}
		if got := Redact(Redact(text)); got != Redact(text) {
			t.Errorf("%q twice: %q", text, got)
		}
	}
	for _, text := range []string{
		"exit status 1: error: timed out waiting for the condition", "deployment.apps/shop successfully rolled out",
		"/var/lib/replicator/hooks/flip.sh: line 12: kubectl: not found", "newest-token.sh: token 1.3.2 is late: 1.4.1 was here already",
		"409 Conflict: the release is not there yet", "https://flags.example/switch: 503 Service Unavailable", "3f8e9a1b2c4d is live",
	} {
		if got := Redact(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}
