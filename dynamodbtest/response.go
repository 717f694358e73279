package dynamodbtest

import "github.com/dynamodb-bigtable/replicator/attribute"

// response builds the JSON object of an answer member by member. It is for operations that return
// items, which are already stored as JSON.
type response struct {
	json []byte
}

func newResponse() *response { return &response{json: []byte{'{'}} }

// member begins a member. The caller must then append the member's value to json.
func (r *response) member(name string) {
	if len(r.json) > 1 {
		r.json = append(r.json, ',')
	}
	r.json = attribute.AppendString(r.json, name)
	r.json = append(r.json, ':')
}

// raw adds a member with the given JSON as its value.
func (r *response) raw(name string, json []byte) {
	r.member(name)
	r.json = append(r.json, json...)
}

// capacity adds ConsumedCapacity if the request wanted it.
func (r *response) capacity(m *meter) {
	if m.wanted() {
		r.member("ConsumedCapacity")
		r.json = m.appendJSON(r.json)
	}
}

func (r *response) close() wire { return append(r.json, '}') }
