package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// fixtures lists the tables that cases share. Each case uses its own partition, named after it.
var fixtures = []struct{ name, parameters string }{
	{"simple", keys("pk", "S")},
	{"pair", keys("pk", "S", "sk", "S")},
	{"numbers", keys("pk", "S", "sk", "N")},
	{"bytes", keys("pk", "S", "sk", "B")},
	{"scanned", keys("pk", "S")},
	{"large", keys("pk", "S", "sk", "S")},
	{"evaluated", keys("pk", "S")},
	{"expiring", keys("pk", "S")},
	{"indexed", `"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"sk","AttributeType":"S"},
		{"AttributeName":"local","AttributeType":"N"},{"AttributeName":"owner","AttributeType":"S"},{"AttributeName":"rank","AttributeType":"N"}],
		"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}],
		"LocalSecondaryIndexes":[{"IndexName":"by-local","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"local","KeyType":"RANGE"}],
			"Projection":{"ProjectionType":"ALL"}}],
		"GlobalSecondaryIndexes":[{"IndexName":"by-owner","KeySchema":[{"AttributeName":"owner","KeyType":"HASH"},{"AttributeName":"rank","KeyType":"RANGE"}],
			"Projection":{"ProjectionType":"ALL"}},
			{"IndexName":"owners","KeySchema":[{"AttributeName":"owner","KeyType":"HASH"}],"Projection":{"ProjectionType":"KEYS_ONLY"}},
			{"IndexName":"some","KeySchema":[{"AttributeName":"owner","KeyType":"HASH"}],"Projection":{"ProjectionType":"INCLUDE","NonKeyAttributes":["a"]}}]`},
	{"several", `"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"tenant","AttributeType":"S"},{"AttributeName":"region","AttributeType":"S"},
		{"AttributeName":"day","AttributeType":"S"},{"AttributeName":"seq","AttributeType":"N"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],
		"GlobalSecondaryIndexes":[{"IndexName":"by-parts","KeySchema":[{"AttributeName":"tenant","KeyType":"HASH"},{"AttributeName":"region","KeyType":"HASH"},
			{"AttributeName":"day","KeyType":"RANGE"},{"AttributeName":"seq","KeyType":"RANGE"}],"Projection":{"ProjectionType":"ALL"}}]`},
	{"both-images", streamed("NEW_AND_OLD_IMAGES")},
	{"new-images", streamed("NEW_IMAGE")},
	{"old-images", streamed("OLD_IMAGE")},
	{"keys-only", streamed("KEYS_ONLY")},
	{"iterated", streamed("KEYS_ONLY")},
	{"disabled", streamed("KEYS_ONLY")},
	{"dropped", streamed("KEYS_ONLY")},
}

// keys returns the parameters of a table with these key attributes, each with its type.
func keys(names ...string) string {
	definitions, schema := "", ""
	for i := 0; i < len(names); i += 2 {
		kind := "HASH"
		if i > 0 {
			definitions, schema, kind = definitions+",", schema+",", "RANGE"
		}
		definitions += fmt.Sprintf(`{"AttributeName":%q,"AttributeType":%q}`, names[i], names[i+1])
		schema += fmt.Sprintf(`{"AttributeName":%q,"KeyType":%q}`, names[i], kind)
	}
	return `"AttributeDefinitions":[` + definitions + `],"KeySchema":[` + schema + `]`
}

// streamed returns the parameters of a table with a stream.
func streamed(view string) string {
	return keys("pk", "S", "sk", "S") + `,"StreamSpecification":{"StreamEnabled":true,"StreamViewType":"` + view + `"}`
}

// createTable creates an on-demand table. If the service refuses one, the suite omits it, and the
// cases that need it report this.
func (s *Suite) createTable(ctx context.Context, name, parameters string) error {
	a, err := s.endpoint.call(ctx, "CreateTable", `{"TableName":"`+s.prefix+name+`","BillingMode":"PAY_PER_REQUEST",`+parameters+`}`)
	if err == nil && a.code == "" {
		s.tables = append(s.tables, name)
	}
	return err
}

// waitActive waits until a table is active or does not exist.
func (s *Suite) waitActive(ctx context.Context, name string) error {
	deadline := time.Now().Add(2 * time.Minute)
	for {
		a, err := s.endpoint.call(ctx, "DescribeTable", `{"TableName":"`+s.prefix+name+`"}`)
		if err != nil {
			return err
		}
		if a.code != "" || at(a.document, "Table", "TableStatus") == "ACTIVE" {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("table %s is not active", name)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// deleteTables deletes the created tables.
func (s *Suite) deleteTables(ctx context.Context) error {
	var failed []error
	for _, name := range s.tables {
		if err := s.deleteTable(ctx, name); err != nil {
			failed = append(failed, fmt.Errorf("delete table %s: %w", s.prefix+name, err))
		}
	}
	return errors.Join(failed...)
}

// deleteTable deletes a table once no other operation on it is running. A missing table is not an
// error.
func (s *Suite) deleteTable(ctx context.Context, name string) error {
	if err := s.waitActive(ctx, name); err != nil {
		return err
	}
	a, err := s.endpoint.call(ctx, "DeleteTable", `{"TableName":"`+s.prefix+name+`"}`)
	if err == nil && a.code != "" && a.code != notFound {
		err = fmt.Errorf("%s: %s", a.code, a.message)
	}
	return err
}

// at returns a value deep in a document, or nil.
func at(document any, path ...string) any {
	for _, name := range path {
		members, ok := document.(map[string]any)
		if !ok {
			return nil
		}
		document = members[name]
	}
	return document
}

// list returns a list deep in a document, or nil.
func list(document any, path ...string) []any {
	found, _ := at(document, path...).([]any)
	return found
}
