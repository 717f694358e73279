package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/build"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
)

// The headers of a call. OutcomeHeader is a header of the answer.
const (
	HookHeader    = "Cutover-Hook"
	TokenHeader   = "Cutover-Token"
	stepHeader    = "Cutover-Step"
	groupHeader   = "Cutover-Group"
	tablesHeader  = "Cutover-Tables"
	ProbeHeader   = "Cutover-Probe"
	OutcomeHeader = "Cutover-Outcome"

	directionHeader       = "Cutover-Direction"
	deadlineHeader        = "Cutover-Deadline"
	deadlineSecondsHeader = "Cutover-Deadline-Seconds"
)

// body is the body of a call.
type body struct {
	Schema    string   `json:"schema"`
	Hook      string   `json:"hook"`            // freeze_writes, switch or unfreeze_writes
	Token     string   `json:"token,omitempty"` // attempt.step.call: rises with every call; a lower one is late
	Step      string   `json:"step"`            // current step of the cutover
	Direction string   `json:"direction"`       // forward, or back in a rollback
	Group     string   `json:"group"`           // group of tables that are cut over together
	Tables    []string `json:"tables"`          // source tables
	Probe     bool     `json:"probe,omitempty"` // do nothing
	// Deadline is when the try ends that freezes the application, and DeadlineSeconds how long that is
	// from now on.
	Deadline        string `json:"deadline,omitempty"`
	DeadlineSeconds string `json:"deadline_seconds,omitempty"`
}

const bodySchema = "replicator.cutover_hook/v1"

// post calls an address. Redirects are not followed, because only the application itself may
// answer.
func (h *Hooks) post(ctx context.Context, u *url.URL, call cutover.Call) (how, output string, outcome cutover.Outcome) {
	b := body{Schema: bodySchema, Hook: call.Hook, Token: call.Token, Step: call.Step, Direction: directionOf(call), Group: call.Group, Tables: call.Tables, Probe: call.Probe}
	if !call.Deadline.IsZero() {
		b.Deadline, b.DeadlineSeconds = deadlineOf(call), secondsLeft(call)
	}
	text, err := json.Marshal(b)
	if err != nil {
		return err.Error(), "", cutover.HookUnknown
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(text))
	if err != nil {
		return "it cannot be called, because the address is not valid", "", cutover.HookUnknown
	}
	request.GetBody = nil // the request must not be sent again, because a retry needs a new token
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", build.UserAgent())
	request.Header.Set(HookHeader, call.Hook)
	request.Header.Set(stepHeader, call.Step)
	request.Header.Set(directionHeader, b.Direction)
	request.Header.Set(groupHeader, call.Group)
	request.Header.Set(tablesHeader, strings.Join(call.Tables, ","))
	if call.Probe {
		request.Header.Set(ProbeHeader, "true")
	} else {
		request.Header.Set(TokenHeader, call.Token)
	}
	if b.Deadline != "" {
		request.Header.Set(deadlineHeader, b.Deadline)
		request.Header.Set(deadlineSecondsHeader, b.DeadlineSeconds)
	}
	answer, err := h.client.Do(request)
	if err != nil {
		return "it did not answer: " + WithoutAddress(err).Error(), "", cutover.HookUnknown
	}
	defer answer.Body.Close()
	var kept tail
	_, err = io.Copy(&kept, io.LimitReader(answer.Body, most))
	how, output = answer.Status, kept.String()
	switch said := answer.Header.Get(OutcomeHeader); {
	case answer.StatusCode/100 == 2 && err == nil && promises(call, said):
		return how, output, cutover.HookQuiet
	case answer.StatusCode/100 == 2 && err == nil:
		return how, output, cutover.HookDone
	case answer.StatusCode/100 == 3:
		return how + " (redirects are not followed)", output, cutover.HookUnknown
	case answer.StatusCode/100 == 4 && strings.EqualFold(said, "refused"):
		return how, output, cutover.HookRefused
	}
	return how, output, cutover.HookUnknown
}
