package preflight

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"

	"github.com/dynamodb-bigtable/replicator/internal/environment"
)

const (
	notWhole     = "download or mount the file again: its JSON is incomplete"
	madeByGoogle = "name a file made by Google Cloud: the key of a service account, or the file that `gcloud auth application-default login` writes"
)

// checkGoogle refuses environment variables with values that Google's libraries cannot use. If the
// variable named by `emulator` redirects the client to an emulator, it does nothing, because an
// emulator needs no credentials and no proxy.
func checkGoogle(emulator string) error {
	if os.Getenv(emulator) != "" {
		return nil
	}
	return environment.CheckGoogleVariables(os.LookupEnv)
}

// credentialsFile returns the path of the credentials file that Google's libraries read, and the
// setting that names the file. It returns "" if there is no such file.
func credentialsFile() (where, path string) {
	if path := os.Getenv(credentialsVariable); path != "" {
		return credentialsVariable, path
	}
	folder := os.Getenv("APPDATA")
	if runtime.GOOS != "windows" {
		home, _ := os.UserHomeDir()
		folder = filepath.Join(home, ".config")
	}
	path = filepath.Join(folder, "gcloud", "application_default_credentials.json")
	if _, err := os.Stat(path); err != nil {
		return "", ""
	}
	return "the file of `gcloud auth application-default login`", path
}

// contentFault describes why the content of a file is not a JSON object, and the fix. It returns ""
// if it finds no fault. It never shows the file's content.
func contentFault(path string) (is, fix string) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", ""
	}
	text := bytes.TrimSpace(content)
	decoded, notEncoded := base64.StdEncoding.DecodeString(string(bytes.ReplaceAll(text, []byte("\n"), nil)))
	switch {
	case len(text) == 0:
		return "it is empty", "download or mount the file again"
	case bytes.HasPrefix(content, []byte("\xef\xbb\xbf")):
		return "it begins with a byte order mark", "save it as UTF-8 without a byte order mark"
	case bytes.HasPrefix(content, []byte("\xff\xfe")), bytes.HasPrefix(content, []byte("\xfe\xff")):
		return "it is UTF-16", "save it as UTF-8 without a byte order mark"
	case bytes.HasPrefix(text, []byte("-----BEGIN")):
		return "it is PEM, not JSON", madeByGoogle
	case json.Valid(text) && text[0] != '{':
		return "it is JSON, but not an object", madeByGoogle
	case notEncoded == nil && bytes.HasPrefix(bytes.TrimSpace(decoded), []byte("{")):
		return "it is encoded in base64", "decode it (base64 --decode), and name the decoded file"
	case text[0] != '{':
		return "it is not JSON", madeByGoogle
	}
	return "", ""
}

// ofNetwork reports whether an error means that a service could not be reached. It recognizes only
// typed errors.
func ofNetwork(err error) bool {
	var failed net.Error // *url.Error is one too
	return errors.As(err, &failed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
