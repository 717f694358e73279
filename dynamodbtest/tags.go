package dynamodbtest

import (
	"encoding/json"
	"slices"
	"strings"
)

// maxTags is the maximum number of tags of a resource ("Tagging restrictions").
const maxTags = 50

type resourceRef struct {
	ResourceArn string
	NextToken   string
}

func (r *resourceRef) subject() (string, string) { return tableOfARN(r.ResourceArn), "" }
func (r *resourceRef) address() string           { return r.ResourceArn }

// resource finds the table of an ARN. Like the service, it reports a missing table as a resource
// that is not accessible.
func (s *Server) resource(arn string) (*table, error) {
	if !strings.HasPrefix(arn, "arn:") || tableOfARN(arn) == "" {
		return nil, validation("Invalid TableArn: Invalid ResourceArn provided as input %s", arn)
	}
	if err := s.checkOwner(arn); err != nil {
		return nil, err
	}
	s.mu.RLock()
	t := s.tables[tableOfARN(arn)]
	s.mu.RUnlock()
	if t == nil {
		return nil, newError("AccessDeniedException", "User is not authorized to perform this operation on resource: "+arn)
	}
	return t, nil
}

func (s *Server) listTags(req *resourceRef) (any, error) {
	t, err := s.resource(req.ResourceArn)
	if err != nil {
		return nil, err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return struct{ Tags []tag }{append([]tag{}, t.tags...)}, nil
}

type tagResourceRequest struct {
	ResourceArn string
	Tags        []tag
}

func (r *tagResourceRequest) subject() (string, string) { return tableOfARN(r.ResourceArn), "" }

func (s *Server) tagResource(req *tagResourceRequest) (any, error) {
	t, err := s.resource(req.ResourceArn)
	if err != nil {
		return nil, err
	}
	if len(req.Tags) == 0 {
		return nil, validation("Atleast one Tag needs to be provided as Input.")
	}
	if err := t.lock(); err != nil {
		return nil, err
	}
	defer t.mu.Unlock()
	tags := slices.Clone(t.tags)
	for _, added := range req.Tags {
		if i := slices.IndexFunc(tags, func(o tag) bool { return o.Key == added.Key }); i >= 0 {
			tags[i] = added
		} else {
			tags = append(tags, added)
		}
	}
	if len(tags) > maxTags {
		return nil, validation("One or more parameter values were invalid: Too many tags: at most %d are allowed", maxTags)
	}
	t.tags = tags
	return json.RawMessage("{}"), nil
}

type untagResourceRequest struct {
	ResourceArn string
	TagKeys     []string
}

func (r *untagResourceRequest) subject() (string, string) { return tableOfARN(r.ResourceArn), "" }

func (s *Server) untagResource(req *untagResourceRequest) (any, error) {
	t, err := s.resource(req.ResourceArn)
	if err != nil {
		return nil, err
	}
	if len(req.TagKeys) == 0 {
		return nil, validation("Atleast one Tag Key needs to be provided as Input.")
	}
	if err := t.lock(); err != nil {
		return nil, err
	}
	defer t.mu.Unlock()
	t.tags = slices.DeleteFunc(slices.Clone(t.tags), func(o tag) bool { return slices.Contains(req.TagKeys, o.Key) })
	return json.RawMessage("{}"), nil
}
