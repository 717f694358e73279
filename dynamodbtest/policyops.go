package dynamodbtest

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of resource-based policies ("Resource-based policy considerations"). The size includes
// white space. After a change, further changes of the same policy are refused for the rest.
const (
	maxPolicySize     = 20 << 10
	defaultPolicyRest = 15 * time.Second
)

// noPolicy is the expected revision of a policy that must not exist.
const noPolicy = "NO_POLICY"

// policyVersion is a table's policy after one change. The text is empty after a deletion.
type policyVersion struct {
	text       string
	revision   string
	statements []statement
	changed    time.Time // when it was put or deleted
	from       time.Time // when it comes into force
}

// same reports whether a document is the version's document, apart from white space.
func (v *policyVersion) same(text string) bool {
	var former, given bytes.Buffer
	return v.text != "" && json.Compact(&former, []byte(v.text)) == nil && json.Compact(&given, []byte(text)) == nil &&
		bytes.Equal(former.Bytes(), given.Bytes())
}

// versions returns the policy in force and its successors.
func (t *table) versions() []policyVersion {
	if list := t.policyVersions.Load(); list != nil {
		return *list
	}
	return nil
}

// policyInForce returns the version that decides at the time; the zero version if there is none.
func (t *table) policyInForce(now time.Time) policyVersion {
	for _, v := range slices.Backward(t.versions()) {
		if !v.from.After(now) {
			return v
		}
	}
	return policyVersion{}
}

// latestPolicy returns the version of the last change; the zero version if there was none.
func (t *table) latestPolicy() policyVersion {
	if list := t.versions(); len(list) > 0 {
		return list[len(list)-1]
	}
	return policyVersion{}
}

// changePolicy appends a version, and forgets those before the version in force. The caller holds
// mu.
func (t *table) changePolicy(v policyVersion) {
	v.from = v.changed.Add(t.policyDelay)
	list := slices.Clone(t.versions())
	for len(list) > 1 && !list[1].from.After(v.changed) {
		list = list[1:]
	}
	list = append(list, v)
	t.policyVersions.Store(&list)
	t.server.policies.Store(true)
}

// rested rejects a change too early after the former change. AWS documents the time, but not the
// error. ResourceInUseException is its error for a resource that is being updated.
func (t *table) rested(now time.Time) error {
	last := t.latestPolicy().changed
	if last.IsZero() || now.Sub(last) >= t.server.opts.PolicyRest {
		return nil
	}
	return newError("ResourceInUseException", "Attempt to change a resource which is still in use: ResourcePolicy update is in progress: "+t.name)
}

// checkRevision compares the policy's revision with the expected one; empty means any.
func (t *table) checkRevision(expected string) error {
	latest := t.latestPolicy()
	why := ""
	switch {
	case expected == "", expected == latest.revision:
		return nil
	case latest.text == "":
		why = "Requested update for policy with revision id " + expected + ", but no policy is associated to target table " + t.name + "."
	case expected == noPolicy:
		why = "Requested policy update expecting none to be present for table " + t.name + ", but a policy exists with revision id " + latest.revision + "."
	default:
		why = "Requested update for policy with revision id " + expected + ", but the policy associated to target table " + t.name + " has revision id " + latest.revision + "."
	}
	return policyNotFound(why)
}

func policyNotFound(why string) error {
	return newError("PolicyNotFoundException", "Resource-based policy not found for the provided ResourceArn: "+why)
}

// policyRef names the table whose policy an operation concerns.
type policyRef struct{ ResourceArn *string }

func (r *policyRef) subject() (string, string) { return tableOfARN(textOrEmpty(r.ResourceArn)), "" }
func (r *policyRef) address() string           { return textOrEmpty(r.ResourceArn) }

// guardedTable returns the table that the ARN names. The service also accepts ARNs of streams.
func (s *Server) guardedTable(ref policyRef) (*table, error) {
	if ref.ResourceArn == nil {
		return nil, missingMember("resourceArn")
	}
	arn := *ref.ResourceArn
	if strings.Contains(arn, "/stream/") {
		return nil, unsupported("A resource policy of a stream")
	}
	if name := tableOfARN(arn); !strings.HasPrefix(arn, "arn:") || name == "" || !strings.HasSuffix(arn, ":table/"+name) {
		return nil, validation("Invalid ResourceArn: Invalid ResourceArn provided as input %s", arn)
	}
	return s.findNamed(refTo(arn))
}

type putPolicyRequest struct {
	policyRef
	Policy                          *string
	ExpectedRevisionId              string
	ConfirmRemoveSelfResourceAccess bool

	caller string
}

func (r *putPolicyRequest) setCaller(arn string) { r.caller = arn }

type policyRevision struct{ RevisionId string }

func (s *Server) putPolicy(req *putPolicyRequest) (any, error) {
	if req.Policy == nil {
		return nil, missingMember("policy")
	}
	t, err := s.guardedTable(req.policyRef)
	if err != nil {
		return nil, err
	}
	if len(*req.Policy) > maxPolicySize {
		return nil, newError("LimitExceededException", "Resource policy exceeds the maximum size of 20 KB")
	}
	statements, err := parsePolicy(*req.Policy, t.arn())
	if err != nil {
		return nil, err
	}
	if !req.ConfirmRemoveSelfResourceAccess && denied(statements, access{req.caller, "PutResourcePolicy", t.arn()}) {
		return nil, badPolicy("the new policy will not allow you to change the policy of this resource in the future, and ConfirmRemoveSelfResourceAccess is not set")
	}
	if err := t.lock(); err != nil {
		return nil, err
	}
	defer t.mu.Unlock()
	latest := t.latestPolicy()
	if req.ExpectedRevisionId != noPolicy || latest.text != "" {
		if err := t.checkRevision(req.ExpectedRevisionId); err != nil {
			return nil, err
		}
	}
	if latest.same(*req.Policy) {
		return policyRevision{latest.revision}, nil
	}
	now := s.Now()
	if err := t.rested(now); err != nil {
		return nil, err
	}
	t.changePolicy(policyVersion{text: *req.Policy, revision: t.nextRevision(now), statements: statements, changed: now})
	return policyRevision{t.latestPolicy().revision}, nil
}

// nextRevision returns a revision that the table did not have before. As with DynamoDB, revisions
// are times in milliseconds.
func (t *table) nextRevision(now time.Time) string {
	t.policyRevision = max(now.UnixMilli(), t.policyRevision+1)
	return strconv.FormatInt(t.policyRevision, 10)
}

type getPolicyRequest struct{ policyRef }

func (s *Server) getPolicy(req *getPolicyRequest) (any, error) {
	t, err := s.guardedTable(req.policyRef)
	if err != nil {
		return nil, err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	v := t.latestPolicy()
	if t.oldPolicyReads {
		v = t.policyInForce(s.Now())
	}
	if v.text == "" {
		return nil, policyNotFound(*req.ResourceArn)
	}
	return struct{ Policy, RevisionId string }{v.text, v.revision}, nil
}

type deletePolicyRequest struct {
	policyRef
	ExpectedRevisionId string
}

func (s *Server) deletePolicy(req *deletePolicyRequest) (any, error) {
	t, err := s.guardedTable(req.policyRef)
	if err != nil {
		return nil, err
	}
	if err := t.lock(); err != nil {
		return nil, err
	}
	defer t.mu.Unlock()
	if err := t.checkRevision(req.ExpectedRevisionId); err != nil {
		return nil, err
	}
	latest := t.latestPolicy()
	if latest.text == "" {
		return policyRevision{}, nil
	}
	now := s.Now()
	if err := t.rested(now); err != nil {
		return nil, err
	}
	t.changePolicy(policyVersion{changed: now})
	return policyRevision{latest.revision}, nil
}
