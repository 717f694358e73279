// Package targetload reads the CPU load of Bigtable clusters. It makes one REST call. If there is
// no answer, the load is unknown, and copies are not slowed down.
package targetload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/dynamodb-bigtable/replicator/internal/build"
)

const (
	// endpoint is the address of Cloud Monitoring. Source:
	// https://cloud.google.com/monitoring/api/ref_v3/rest/v3/projects.timeSeries/list
	endpoint = "https://monitoring.googleapis.com"
	// metric is the mean CPU load of a cluster's nodes, from 0 to 1. Source:
	// https://cloud.google.com/monitoring/api/metrics_gcp_a_b (bigtable/cluster/cpu_load)
	metric = "bigtable.googleapis.com/cluster/cpu_load"
	// scope is the narrowest scope that can read the metric. permission is the permission that the
	// identity needs in the project; roles/monitoring.viewer includes it.
	scope      = "https://www.googleapis.com/auth/monitoring.read"
	permission = "monitoring.timeSeries.list"

	// window is the period of the requested points. The metric has a point each minute. A point may
	// be four minutes old when it first appears.
	window = 10 * time.Minute
	// answerTime is the timeout of a request, including the request for a token.
	answerTime = 20 * time.Second
	// maxAnswer is the maximum size of an answer. An answer with ten points for each cluster of an
	// instance has a few kilobytes.
	maxAnswer = 1 << 20
)

// Reading is the result of one read of the target's CPU load.
type Reading struct {
	// Known reports whether the load is known. If the load is unknown, Why is the reason, in a few
	// words.
	Known bool
	Why   string
	// CPU is the load of the busiest cluster, such as 0.7 for 70 %, at its newest point. At is the
	// time of that point.
	CPU     float64
	Cluster string
	At      time.Time
}

// Above reports whether the CPU load is known and above the given share.
func (r Reading) Above(share float64) bool { return r.Known && r.CPU > share }

// String describes the reading.
func (r Reading) String() string {
	if !r.Known {
		return "unknown: " + r.Why
	}
	return fmt.Sprintf("target CPU %.0f%% (cluster %s)", r.CPU*100, r.Cluster)
}

// Monitor reads the CPU load of one instance. It is not safe for concurrent use. Its optional
// fields are for tests; production code leaves them zero.
type Monitor struct {
	Project, Instance string
	// Emulator is the address of the emulator if the target is an emulator; "" otherwise. An
	// emulator has no monitoring.
	Emulator string
	// Endpoint replaces the constant endpoint. Client replaces the client that uses the Application
	// Default Credentials.
	Endpoint string
	Client   *http.Client
}

// Read reads the CPU load at time `now`. It returns at the latest when ctx ends.
func (m *Monitor) Read(ctx context.Context, now time.Time) Reading {
	if m.Emulator != "" {
		return unknown("an emulator has no Cloud Monitoring")
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	client, err := m.client(ctx)
	if err != nil {
		return unknown("no Google credentials: " + firstLine(err))
	}
	m.Client = client
	answer, err := m.ask(ctx, client, now)
	if err != nil {
		return unknown(firstLine(err))
	}
	return newest(answer)
}

func unknown(why string) Reading { return Reading{Why: why} }

// firstLine shortens a reason to one line for the log.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// client creates the client at its first use, so that it also finds credentials that become
// available later.
func (m *Monitor) client(ctx context.Context) (*http.Client, error) {
	if m.Client != nil {
		return m.Client, nil
	}
	credentials, err := google.FindDefaultCredentials(ctx, scope)
	if err != nil {
		return nil, err
	}
	// The client does not use the request's context, because tokens are renewed as long as the
	// process runs.
	return oauth2.NewClient(context.WithoutCancel(ctx), credentials.TokenSource), nil
}

// series holds the members of the service's answer that are used.
type series struct {
	TimeSeries []struct {
		Resource struct {
			Labels struct {
				Cluster string `json:"cluster"`
			} `json:"labels"`
		} `json:"resource"`
		Points []struct {
			Interval struct {
				EndTime time.Time `json:"endTime"`
			} `json:"interval"`
			Value struct {
				Double *float64 `json:"doubleValue"`
			} `json:"value"`
		} `json:"points"`
	} `json:"timeSeries"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

func (m *Monitor) ask(ctx context.Context, client *http.Client, now time.Time) (series, error) {
	base := m.Endpoint
	if base == "" {
		base = endpoint
	}
	query := url.Values{
		"filter":             {fmt.Sprintf(`metric.type = %q AND resource.labels.instance = %q`, metric, m.Instance)},
		"interval.startTime": {now.Add(-window).UTC().Format(time.RFC3339)},
		"interval.endTime":   {now.UTC().Format(time.RFC3339)},
		"view":               {"FULL"},
	}
	address := base + "/v3/projects/" + url.PathEscape(m.Project) + "/timeSeries?" + query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return series{}, err
	}
	request.Header.Set("User-Agent", build.UserAgent())
	response, err := client.Do(request)
	if err != nil {
		if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
			err = wrapped.Err // the URL is left out, because it does not help people
		}
		return series{}, fmt.Errorf("cannot query Cloud Monitoring: %w", err)
	}
	defer response.Body.Close()
	var out series
	err = json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&out)
	switch {
	case response.StatusCode == http.StatusForbidden:
		return out, fmt.Errorf("no permission %s in project %s: %s", permission, m.Project, out.message(response))
	case response.StatusCode != http.StatusOK:
		return out, fmt.Errorf("the request to Cloud Monitoring is refused: %s", out.message(response))
	case err != nil:
		return out, fmt.Errorf("cannot read the answer of Cloud Monitoring: %w", err)
	}
	return out, nil
}

// message returns the reason in an answer that is an error, or else the answer's status.
func (s series) message(r *http.Response) string {
	if s.Error != nil && s.Error.Message != "" {
		return s.Error.Message
	}
	return r.Status
}

// newest returns the newest point of the cluster with the highest load.
func newest(s series) Reading {
	out := Reading{Why: fmt.Sprintf("Cloud Monitoring has no data of the instance's clusters within %s", window)}
	for _, cluster := range s.TimeSeries {
		var last Reading
		for _, p := range cluster.Points {
			if p.Value.Double != nil && (!last.Known || p.Interval.EndTime.After(last.At)) {
				last = Reading{Known: true, CPU: *p.Value.Double, Cluster: cluster.Resource.Labels.Cluster, At: p.Interval.EndTime}
			}
		}
		if last.Known && (!out.Known || last.CPU > out.CPU) {
			out = last
		}
	}
	return out
}
