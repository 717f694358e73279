package dynamodbtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// controlPrefix is the path of the controls if Options.Control is set.
const controlPrefix = "/_control/"

// control is the body of a POST to /_control/<name>: the parameters of the method of that name.
// Parameters of other methods are absent.
type control struct {
	Table string `json:"table"`
	Shard string `json:"shard"`
	// Until is a time in RFC 3339. After may be given instead: a duration from now.
	Until    time.Time `json:"until"`
	After    duration  `json:"after"`
	Duration duration  `json:"duration"`
	Children duration  `json:"children"`
	Closings duration  `json:"closings"`
	Count    int       `json:"count"`
	Sequence string    `json:"sequence"`
	Restart  bool      `json:"restart"`
	Key      string    `json:"key"`
	Fault    Fault     `json:"fault"`
	// AccessKey is an access key id, and Role is the ARN of its role.
	AccessKey string `json:"access_key"`
	Role      string `json:"role"`
	Old       bool   `json:"old"`
}

// duration is a time.Duration written as "1h30m".
type duration time.Duration

func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}

// until returns the time that the request names.
func (c *control) until(s *Server) time.Time {
	if c.Until.IsZero() {
		return s.Now().Add(time.Duration(c.After))
	}
	return c.Until
}

// controls maps the names of the controls to the methods of Server.
var controls = map[string]func(s *Server, c *control) (any, error){
	"shards":   func(s *Server, c *control) (any, error) { return s.Shards(c.Table) },
	"shard-of": func(s *Server, c *control) (any, error) { return s.ShardOf(c.Table, c.Key) },
	"split":    func(s *Server, c *control) (any, error) { return s.SplitShard(c.Table, c.Shard) },
	"roll":     func(s *Server, c *control) (any, error) { return s.RollShard(c.Table, c.Shard) },
	"ttl-sweep": func(s *Server, c *control) (any, error) {
		return s.SweepTTL(c.Table)
	},
	"trim": func(s *Server, c *control) (any, error) {
		return nil, s.TrimTo(c.Table, c.until(s))
	},
	"expire-iterators": func(s *Server, c *control) (any, error) {
		return nil, s.ExpireIterators(c.Table)
	},
	"hide-shard": func(s *Server, c *control) (any, error) {
		return nil, s.HideShard(c.Table, c.Shard, c.until(s))
	},
	"show-open": func(s *Server, c *control) (any, error) {
		return nil, s.ShowOpen(c.Table, c.Shard, c.until(s))
	},
	"delay-listing": func(s *Server, c *control) (any, error) {
		return nil, s.DelayListing(c.Table, time.Duration(c.Children), time.Duration(c.Closings))
	},
	"listing-page": func(s *Server, c *control) (any, error) {
		return nil, s.SetListingPage(c.Table, c.Count)
	},
	"repeat-pages": func(s *Server, c *control) (any, error) {
		return nil, s.RepeatPages(c.Table, c.Count)
	},
	"empty-pages": func(s *Server, c *control) (any, error) {
		return nil, s.EmptyPages(c.Table, c.Shard, c.Count)
	},
	"record-time-offset": func(s *Server, c *control) (any, error) {
		return nil, s.SetRecordTimeOffset(c.Table, time.Duration(c.Duration))
	},
	"next-sequence": func(s *Server, c *control) (any, error) {
		return nil, s.SetNextSequenceNumber(c.Table, c.Shard, c.Sequence)
	},
	"restart-sequences": func(s *Server, c *control) (any, error) {
		return nil, s.RestartSequences(c.Table, c.Restart)
	},
	"auto-roll": func(s *Server, c *control) (any, error) {
		return nil, s.SetAutoRoll(c.Table, time.Duration(c.Duration))
	},
	"fail": func(s *Server, c *control) (any, error) {
		c.Fault.Late = time.Duration(c.After)
		s.Fail(c.Fault)
		return nil, nil
	},
	"straggle": func(s *Server, c *control) (any, error) {
		s.Straggle(c.Table, c.Count, time.Duration(c.After))
		return nil, nil
	},
	"role": func(s *Server, c *control) (any, error) {
		s.SetRole(c.AccessKey, c.Role)
		return nil, nil
	},
	"policy-delay": func(s *Server, c *control) (any, error) {
		return nil, s.SetPolicyDelay(c.Table, time.Duration(c.Duration))
	},
	"old-policy-reads": func(s *Server, c *control) (any, error) {
		return nil, s.OldPolicyReads(c.Table, c.Old)
	},
	"clear-faults": func(s *Server, _ *control) (any, error) {
		s.ClearFaults()
		return nil, nil
	},
	"calls": func(s *Server, c *control) (any, error) {
		return s.Calls(c.Fault.Operation), nil
	},
	"advance-clock": func(s *Server, c *control) (any, error) {
		s.AdvanceClock(time.Duration(c.Duration))
		return s.Now(), nil
	},
}

// serveControl answers a POST with {"result":…} or, with status 400 or 404, {"error":…}.
func (s *Server) serveControl(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, controlPrefix)
	run, ok := controls[name]
	if !ok || r.Method != http.MethodPost {
		names := strings.Join(sortedKeys(controls), ", ")
		s.answerControl(w, http.StatusNotFound, "error", fmt.Sprintf("POST to %s followed by one of: %s", controlPrefix, names))
		return
	}
	var c control
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil && err != io.EOF {
		s.answerControl(w, http.StatusBadRequest, "error", err.Error())
		return
	}
	result, err := run(s, &c)
	if err != nil {
		s.answerControl(w, http.StatusBadRequest, "error", err.Error())
		return
	}
	s.answerControl(w, http.StatusOK, "result", result)
}

func (s *Server) answerControl(w http.ResponseWriter, status int, member string, value any) {
	body, err := json.Marshal(map[string]any{member: value})
	if err != nil {
		panic("dynamodbtest: the answer of a control always encodes: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}
