package preflight

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// If a connection cannot get a token, it fails with that reason.
func TestTheReasonIsThatThereIsNoToken(t *testing.T) {
	says := http.StatusForbidden
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Metadata-Flavor", "Google")
		w.WriteHeader(says)
		_, _ = w.Write([]byte(`{"access_token": "x", "expires_in": 3600}`))
	}))
	defer metadata.Close()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("BIGTABLE_EMULATOR_HOST", "")
	t.Setenv(credentialsVariable, "")
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(metadata.URL, "http://"))
	err := noToken(t.Context())
	var e *diag.Error
	if err == nil || !errors.As(ExplainTarget("what", err), &e) || e.Code != diag.NoGCPCredentials || !strings.Contains(e.Fix, "metadata server") {
		t.Errorf("the metadata server refuses: %v, %+v", err, e)
	}
	says = http.StatusOK
	if err := noToken(t.Context()); err != nil {
		t.Errorf("the metadata server gives a token: %v", err)
	}
	key := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(key, []byte(`{"type": "service_account", "private_key": "x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(credentialsVariable, key)
	if err := noToken(t.Context()); err != nil {
		t.Errorf("a key signs its own tokens: %v", err)
	}
	t.Setenv("BIGTABLE_EMULATOR_HOST", "127.0.0.1:1")
	t.Setenv(credentialsVariable, "nowhere")
	if err := noToken(t.Context()); err != nil {
		t.Errorf("an emulator takes no token: %v", err)
	}
}
