package preflight

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// NoExpiry explains why no item of the sample expires by the configured time-to-live attribute, at
// a time of the source's clock. The cause is "" if an item expires, or if no item has the
// attribute.
func (s *Sampled) NoExpiry(t Table, at time.Time) (cause, fix string) {
	name := t.Config.TTL.Attribute
	var values []attribute.Value
	for _, item := range s.Items {
		if v, found := item.Get(name); found {
			values = append(values, v)
		}
		if t.Mapping.Expires(item, at) {
			return "", ""
		}
	}
	if name == "" || len(values) == 0 {
		return "", ""
	}
	of := terminal.Plural(len(values), "sampled value")
	switch {
	case !slices.ContainsFunc(values, func(v attribute.Value) bool { return v.Kind() == attribute.KindN }):
		return fmt.Sprintf("%s of %s: none is a number, and DynamoDB accepts only type N", of, name), "let the application write a number of seconds since 1970, or name another attribute"
	case !slices.ContainsFunc(values, func(v attribute.Value) bool { return !inMilliseconds(v, at) }):
		return fmt.Sprintf("%s of %s: all look like milliseconds, and DynamoDB reads seconds", of, name), "let the application write the value divided by 1000, or name another attribute"
	}
	return fmt.Sprintf("%s of %s: none is a number of seconds since 1970 that is less than five years ago", of, name), "check that the attribute is the one by which items expire"
}

// inMilliseconds reports whether a value is a time within fifty years of another, in milliseconds.
func inMilliseconds(v attribute.Value, at time.Time) bool {
	const near = 50 * 365 * 24 * time.Hour
	n, err := strconv.ParseInt(v.Text(), 10, 64)
	return v.Kind() == attribute.KindN && err == nil && time.UnixMilli(n).Sub(at).Abs() < near
}
