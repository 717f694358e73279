package preflight

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/processcreds"
)

// checkedCredentials returns the credentials of a provider. It refuses credentials that contain
// characters that no request can carry. Each of its errors is a *credentialsError.
type checkedCredentials struct{ aws.CredentialsProvider }

// Retrieve implements aws.CredentialsProvider.
func (c checkedCredentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	found, err := c.CredentialsProvider.Retrieve(ctx)
	if err == nil {
		err = checkCredentials(found)
	}
	if err != nil {
		return aws.Credentials{}, &credentialsError{withoutOutput(err)}
	}
	return found, nil
}

// withoutOutput removes the output of a credential_process from an error. If the SDK cannot parse
// the output, it quotes all of it, including the secret.
func withoutOutput(err error) error {
	var process *processcreds.ProviderError
	if !errors.As(err, &process) || !strings.HasPrefix(process.Err.Error(), "parse failed") {
		return err
	}
	return fmt.Errorf("the output of credential_process cannot be read: %w", errors.Unwrap(process.Err))
}

// credentialsError is the reason why a request had no credentials.
type credentialsError struct{ err error }

func (e *credentialsError) Error() string { return e.err.Error() }

func (e *credentialsError) Unwrap() error { return e.err }

// strangeCredentials is the error for an invalid character in a part of credentials. It does not
// contain the part itself.
type strangeCredentials struct{ part, source, fault string }

func (e *strangeCredentials) Error() string {
	return "the " + e.part + " from " + e.source + " " + e.fault
}

func (e *strangeCredentials) fix() string {
	alone := "write only the " + e.part
	switch {
	case strings.HasSuffix(e.fault, newline):
		return alone + ". A Kubernetes secret made from a file or by echo keeps the newline; a secret made by printf or --from-literal has none"
	case strings.HasSuffix(e.fault, quotation):
		return alone + ", without quotation marks. Files of variables (docker --env-file, EnvironmentFile) and AWS profiles may keep them as part of the value"
	case strings.HasSuffix(e.fault, orderMark):
		return alone + ", in a file without a byte order mark. Some editors and PowerShell write one"
	}
	return alone
}

// checkCredentials returns a *strangeCredentials if a part contains a character that is not valid
// in keys. If the access key or the token contains a newline, no request can be sent. If the secret
// contains a newline, every signature is wrong.
func checkCredentials(c aws.Credentials) error {
	for _, part := range []struct{ name, value string }{
		{"access key ID", c.AccessKeyID}, {"secret access key", c.SecretAccessKey}, {"session token", c.SessionToken},
	} {
		if fault := strangeIn(part.value); fault != "" {
			return &strangeCredentials{part.name, c.Source, fault}
		}
	}
	return nil
}

// Faults in credentials. Each has its own fix.
const (
	newline   = "a newline"
	quotation = "a quotation mark"
	orderMark = "a byte order mark"
)

// strangeIn describes the invalid character in a part of credentials; "" if there is none.
func strangeIn(value string) string {
	bad := func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\'' }
	at := strings.IndexFunc(value, bad)
	if at < 0 {
		return ""
	}
	where := "contains "
	switch {
	case strings.TrimLeftFunc(value[at:], bad) == "":
		where = "ends with "
	case at == 0:
		where = "begins with "
	}
	if strings.HasPrefix(value[at:], "\ufeff") {
		return where + orderMark
	}
	switch value[at] {
	case '\n', '\r':
		return where + newline
	case ' ', '\t':
		return where + "a space"
	case '"', '\'':
		return where + quotation
	}
	return where + "an invalid character"
}
