package preflight

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/config"
)

// The configured bucket reaches both services: DynamoDB that writes exports, and S3 from which they
// are read.
func TestConfiguredBucketOfExports(t *testing.T) {
	var asked, payer string
	aws := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			payer = r.Header.Get("X-Amz-Request-Payer")
			return
		}
		text, _ := io.ReadAll(r.Body)
		asked = string(text)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_, _ = io.WriteString(w, `{"ExportDescription":{"ExportArn":"arn","ExportStatus":"IN_PROGRESS"}}`)
	}))
	defer aws.Close()
	awsEnvironment(t, map[string]string{"AWS_ACCESS_KEY_ID": "own", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ENDPOINT_URL": aws.URL})
	const key = "1234abcd-12ab-34cd-56ef-1234567890ab"
	for given, want := range map[config.Export]string{{}: "", {KMSKey: key, BucketOwner: "111122223333", RequesterPays: true}: "requester"} {
		s, err := ConnectSource(t.Context(), &config.Config{Source: config.Source{Region: "eu-west-1"}, Backfill: config.Backfill{Export: given}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Exporter.Request(t.Context(), backfill.ExportOrder{TableARN: "table", Bucket: "b", At: time.Unix(1_795_170_000, 0), Token: "token"}); err != nil {
			t.Error(err)
		}
		store, _, err := s.OpenFolder(t.Context(), func(string) (string, bool) { return "", false }, "s3://b/AWSDynamoDB/01-a")
		if err != nil {
			t.Fatal(err)
		}
		object, err := store.Open(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		if err := object.Close(); err != nil || payer != want || strings.Contains(asked, `"S3SseKmsKeyId":"`+key) != (want != "") || strings.Contains(asked, `"S3BucketOwner":"111122223333"`) != (want != "") {
			t.Errorf("%+v: %s, paid by %q (%v)", given, asked, payer, err)
		}
	}
}
