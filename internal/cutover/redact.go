package cutover

import "regexp"

// redacted lists the forms in which programs print secrets, each with its replacement.
var redacted = []struct {
	form  *regexp.Regexp
	stays string
}{
	{regexp.MustCompile(`(?is)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`), "[redacted]"},
	{regexp.MustCompile(`(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)(["']?\s*[:=]\s*)[^"'\n]+`), "$1$2[redacted]"},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[a-z0-9+/._~=-]{6,}`), "$1 [redacted]"},
	{regexp.MustCompile(`(?i)([a-z0-9_-]*(?:token|secret|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|private[_-]?key|credential|signature)[a-z0-9_-]*)(["']?\s*[:=]\s*)("[^"]*"|'[^']*'|[^\s"'&,;]+)`), "$1$2[redacted]"},
	{regexp.MustCompile(`(?i)(--?[a-z0-9_-]*(?:token|secret|passw(?:or)?d|api-?key)[a-z0-9_-]*)(\s+)[^\s-]\S*`), "$1$2[redacted]"},
	{regexp.MustCompile(`(?i)\b([a-z][a-z0-9+.-]*://)[^/\s"'@]+@`), "$1[redacted]@"},
	{regexp.MustCompile(`(?i)\b(https?://[^\s?"'<>]+)\?[^\s"'<>]+`), "$1?[redacted]"},
	{regexp.MustCompile(`\b(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b`), "[redacted]"},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){1,4}`), "[redacted]"},
	{regexp.MustCompile(`\b(?:ghp|gho|ghs|ghu|github_pat|glpat|xox[abprs]|sk|ya29)[_.-][A-Za-z0-9_-]{10,}`), "[redacted]"},
	{regexp.MustCompile(`(^|[^/A-Za-z0-9+_])[A-Za-z0-9+_]{40,}={0,2}`), "$1[redacted]"},
}

// Redact removes values that look like secrets from a hook's output: credentials, headers, keys,
// values after names such as token or password, and queries of URLs. When in doubt, it removes a
// value, because the result is stored in the record and shown in the API and the evidence.
func Redact(output string) string {
	for _, r := range redacted {
		output = r.form.ReplaceAllString(output, r.stays)
	}
	return output
}
