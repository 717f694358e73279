package targetload

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/build"
)

var now = time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)

// monitoring serves one answer and records the requests.
func monitoring(t *testing.T, status int, answer string) (*Monitor, *http.Request) {
	t.Helper()
	var asked http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = *r
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	return &Monitor{Project: "example.com:shop", Instance: "prod", Endpoint: server.URL, Client: server.Client()}, &asked
}

func point(at time.Time, value string) string {
	return fmt.Sprintf(`{"interval":{"startTime":%q,"endTime":%[1]q},"value":{%s}}`, at.Format(time.RFC3339Nano), value)
}

func cluster(name string, points ...string) string {
	return fmt.Sprintf(`{"metric":{"type":"bigtable.googleapis.com/cluster/cpu_load"},"resource":{"type":"bigtable_cluster",
		"labels":{"project_id":"p","instance":"prod","cluster":%q,"zone":"z"}},"metricKind":"GAUGE","valueType":"DOUBLE","points":[%s]}`, name, strings.Join(points, ","))
}

// For each cluster the newest point counts, in any order, and of these points the highest.
func TestBusiestCluster(t *testing.T) {
	m, asked := monitoring(t, http.StatusOK, `{"timeSeries":[`+strings.Join([]string{
		cluster("a", point(now.Add(-2*time.Minute), `"doubleValue":0.42`), point(now.Add(-3*time.Minute), `"doubleValue":0.99`)),
		cluster("b", point(now.Add(-5*time.Minute), `"doubleValue":0.1`), point(now.Add(-4*time.Minute), `"doubleValue":0.74`)),
		cluster("c", point(now, `"int64Value":"7"`)),
		cluster("d"),
	}, ",")+`]}`)
	r := m.Read(context.Background(), now)
	if want := (Reading{Known: true, CPU: 0.74, Cluster: "b", At: now.Add(-4 * time.Minute)}); r != want {
		t.Errorf("%+v", r)
	}
	if r.String() != "target CPU 74% (cluster b)" || !r.Above(0.7) || r.Above(0.74) {
		t.Error(r)
	}
	if asked.URL.Path != "/v3/projects/example.com:shop/timeSeries" || asked.Method != http.MethodGet || asked.UserAgent() != build.UserAgent() {
		t.Error(asked.Method, asked.URL, asked.UserAgent())
	}
	q := asked.URL.Query()
	if q.Get("filter") != `metric.type = "bigtable.googleapis.com/cluster/cpu_load" AND resource.labels.instance = "prod"` ||
		q.Get("interval.startTime") != "2026-11-24T09:50:00Z" || q.Get("interval.endTime") != "2026-11-24T10:00:00Z" || q.Get("view") != "FULL" {
		t.Error(q)
	}
}

// A point without a value is ignored, wherever it is, and the busiest cluster wins in any order. An
// unknown load exceeds no limit.
func TestWhichPointCounts(t *testing.T) {
	at := func(minutes int, cpu string) string {
		return point(now.Add(-time.Duration(minutes)*time.Minute), `"doubleValue":`+cpu)
	}
	none := point(now, `"boolValue":true`)
	for name, c := range map[string]struct {
		clusters []string
		cpu      float64
		cluster  string
	}{
		"the first is the busiest": {[]string{cluster("a", at(1, "0.9")), cluster("b", at(1, "0.2"))}, 0.9, "a"},
		"the last is the busiest":  {[]string{cluster("a", at(1, "0.2")), cluster("b", at(1, "0.9"))}, 0.9, "b"},
		"one without a point last": {[]string{cluster("a", at(1, "0.2")), cluster("b", none)}, 0.2, "a"},
		"a newer one has no value": {[]string{cluster("a", none, at(3, "0.3"), none)}, 0.3, "a"},
		"idle clusters":            {[]string{cluster("a", at(1, "0")), cluster("b")}, 0, "a"},
		"before 1970":              {[]string{cluster("a", point(time.Time{}, `"doubleValue":0.4`))}, 0.4, "a"},
	} {
		m, _ := monitoring(t, http.StatusOK, `{"timeSeries":[`+strings.Join(c.clusters, ",")+`]}`)
		if r := m.Read(context.Background(), now); !r.Known || r.CPU != c.cpu || r.Cluster != c.cluster {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if (Reading{CPU: 1}).Above(0.5) || !(Reading{Known: true, CPU: 1}).Above(0.5) {
		t.Error("a reading that is not known is above")
	}
	m, _ := monitoring(t, http.StatusServiceUnavailable, `{"error":{"message":""}}`)
	if r := m.Read(context.Background(), now); r.Why != "the request to Cloud Monitoring is refused: 503 Service Unavailable" {
		t.Error(r)
	}
	m.Endpoint, m.Client = "", &http.Client{Transport: asked(func(r *http.Request) string { return r.URL.Host })}
	if r := m.Read(context.Background(), now); r.Why != "cannot query Cloud Monitoring: monitoring.googleapis.com" {
		t.Error(r)
	}
}

// asked fails each request with a description of it.
type asked func(r *http.Request) string

func (a asked) RoundTrip(r *http.Request) (*http.Response, error) { return nil, errors.New(a(r)) }

// If there is no answer, the result is the reason, and nothing is slowed.
func TestCannotTell(t *testing.T) {
	for _, c := range []struct {
		status      int
		answer, why string
	}{
		{http.StatusOK, `{}`, "Cloud Monitoring has no data of the instance's clusters within 10m0s"},
		{http.StatusOK, `{"timeSeries":[` + cluster("a") + "," + cluster("b", point(now, `"int64Value":"7"`)) + `]}`, "Cloud Monitoring has no data of the instance's clusters within 10m0s"},
		{http.StatusOK, `{"timeSeries":`, "cannot read the answer of Cloud Monitoring: unexpected EOF"},
		{http.StatusForbidden, `{"error":{"code":403,"message":"Permission denied.","status":"PERMISSION_DENIED"}}`,
			"no permission monitoring.timeSeries.list in project example.com:shop: Permission denied."},
		{http.StatusForbidden, `<html>`, "no permission monitoring.timeSeries.list in project example.com:shop: 403 Forbidden"},
		{http.StatusInternalServerError, `{"error":{"message":"later"}}`, "the request to Cloud Monitoring is refused: later"},
	} {
		m, _ := monitoring(t, c.status, c.answer)
		r := m.Read(context.Background(), now)
		if r.Known || r.Why != c.why || r.String() != "unknown: "+c.why || r.Above(0) {
			t.Errorf("%+v, want %q", r, c.why)
		}
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	m, _ := monitoring(t, http.StatusOK, `{}`)
	if r := m.Read(ended, now); r.Known || r.Why != "cannot query Cloud Monitoring: context canceled" {
		t.Error(r)
	}
	if r := (&Monitor{Project: "p", Instance: "i", Emulator: "localhost:1"}).Read(ended, now); r.Known || r.Why != "an emulator has no Cloud Monitoring" {
		t.Error(r)
	}
}

// Credentials come from the environment, which is read again at each reading until there are some.
func TestDefaultCredentials(t *testing.T) {
	m, asked := monitoring(t, http.StatusOK, `{"timeSeries":[`+cluster("a", point(now, `"doubleValue":0.5`))+`]}`)
	m.Client = nil
	path := filepath.Join(t.TempDir(), "credentials.json")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", path)
	if r := m.Read(context.Background(), now); r.Known || !strings.HasPrefix(r.Why, "no Google credentials: ") {
		t.Error(r)
	}
	granted := 0
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		granted++
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"access_token":"granted","token_type":"Bearer","expires_in":3600}`)
	}))
	defer tokens.Close()
	document := fmt.Sprintf(`{"type":"external_account","audience":"a","subject_token_type":"urn:ietf:params:oauth:token-type:jwt","token_url":%q,
		"credential_source":{"file":%q}}`, tokens.URL, path+".token")
	for name, content := range map[string]string{path: document, path + ".token": "subject"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // with one token, because the client is kept
		r := m.Read(context.Background(), now)
		if !r.Known || r.CPU != 0.5 || asked.Header.Get("Authorization") != "Bearer granted" || granted != 1 {
			t.Errorf("%v, asked with %q, granted %d times", r, asked.Header.Get("Authorization"), granted)
		}
	}
}

// The reason of an unknown load is one line of the log, whatever the service answers. Any other
// status than OK is a refusal.
func TestARefusalIsOneLine(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusTooManyRequests, http.StatusBadGateway} {
		m, _ := monitoring(t, status, `{"error":{"message":"quota\nof the project"},"timeSeries":[`+cluster("a", point(now, `"doubleValue":0.5`))+`]}`)
		if r := m.Read(context.Background(), now); r != (Reading{Why: "the request to Cloud Monitoring is refused: quota"}) {
			t.Errorf("%d: %+v", status, r)
		}
	}
}

// The times of a request are in UTC, and the project is one element of its path, however the caller
// writes them.
func TestWhatIsAsked(t *testing.T) {
	m, asked := monitoring(t, http.StatusOK, `{}`)
	m.Project, m.Instance = "a project/b", `in"st`
	m.Read(context.Background(), now.In(time.FixedZone("zone", 7200)))
	q := asked.URL.Query()
	if q.Get("interval.startTime") != "2026-11-24T09:50:00Z" || q.Get("interval.endTime") != "2026-11-24T10:00:00Z" || !strings.HasSuffix(q.Get("filter"), `instance = "in\"st"`) {
		t.Error(q)
	}
	if asked.URL.EscapedPath() != "/v3/projects/a%20project%2Fb/timeSeries" {
		t.Error(asked.URL.EscapedPath())
	}
}
