// Package targetload reads the CPU load of Bigtable clusters. It makes one REST call. If there is
// no answer, the load is unknown, with a reason, and copies of items are not slowed down.
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
)

const (
	// endpoint is the service's own address.
	// Source: https://cloud.google.com/monitoring/api/ref_v3/rest/v3/projects.timeSeries/list
	endpoint = "https://monitoring.googleapis.com"
	// metric is the mean over a cluster's nodes, from 0 to 1.
	// Source: https://cloud.google.com/monitoring/api/metrics_gcp_a_b (bigtable/cluster/cpu_load)
	metric = "bigtable.googleapis.com/cluster/cpu_load"
	// scope is the narrowest scope that can read the metric. permission is the permission that the
	// identity needs in the project; roles/monitoring.viewer includes it.
	scope      = "https://www.googleapis.com/auth/monitoring.read"
	permission = "monitoring.timeSeries.list"

	// window is the period of the requested points. The metric is sampled each minute, and a point
	// may be four minutes old when it first appears.
	window = 10 * time.Minute
	// answerTime bounds a request, including the fetch of a token before it.
	answerTime = 20 * time.Second
	// maxAnswer bounds the size of an answer that is read. A page with ten points for each cluster
	// of an instance has a few kilobytes.
	maxAnswer = 1 << 20
)

// Reading is the known load of the target.
type Reading struct {
	// Known reports whether the load is known. Why is the reason if it is not, in a few words.
	Known bool
	Why   string
	// CPU is the load of the busiest cluster, such as 0.7 for 70 %, at its newest point. At is the
	// time of that point.
	CPU     float64
	Cluster string
	At      time.Time
}

// Above reports whether the target is known to be busier than a share of its CPU.
func (r Reading) Above(share float64) bool { return r.Known && r.CPU > share }

// String returns the reading for people.
func (r Reading) String() string {
	if !r.Known {
		return "unknown: " + r.Why
	}
	return fmt.Sprintf("target CPU %.0f%% (cluster %s)", r.CPU*100, r.Cluster)
}

// Monitor reads the load of one instance. It is not safe for concurrent use. In production, its
// optional fields are zero.
type Monitor struct {
	Project, Instance string
	// Emulator is the address of an emulator, which has no monitoring; "" if the target is
	// Bigtable.
	Emulator string
	// Endpoint replaces the constant endpoint. Client replaces a client with the Application
	// Default Credentials.
	Endpoint string
	Client   *http.Client
}

// Read reads the load as of a time. It returns when ctx ends, at the latest.
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

// client creates the client at its first use, so that it finds credentials that arrive late.
func (m *Monitor) client(ctx context.Context) (*http.Client, error) {
	if m.Client != nil {
		return m.Client, nil
	}
	credentials, err := google.FindDefaultCredentials(ctx, scope)
	if err != nil {
		return nil, err
	}
	// Tokens are renewed as long as the process runs, beyond this request's context.
	return oauth2.NewClient(context.WithoutCancel(ctx), credentials.TokenSource), nil
}

// series is the used part of the service's answer.
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
	response, err := client.Do(request)
	if err != nil {
		if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
			err = wrapped.Err // without the address, which does not help the reader
		}
		return series{}, fmt.Errorf("cannot ask Cloud Monitoring: %w", err)
	}
	defer response.Body.Close()
	var out series
	err = json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&out)
	switch {
	case response.StatusCode == http.StatusForbidden:
		return out, fmt.Errorf("no permission %s in project %s: %s", permission, m.Project, out.message(response))
	case response.StatusCode != http.StatusOK:
		return out, fmt.Errorf("the request is refused by Cloud Monitoring: %s", out.message(response))
	case err != nil:
		return out, fmt.Errorf("cannot read the answer of Cloud Monitoring: %w", err)
	}
	return out, nil
}

// message returns the reason in a refusal, or else its status.
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
