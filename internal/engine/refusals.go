package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// StreamError says that a table has no stream that can keep its rows equal to its items.
type StreamError struct {
	Table string
	// View is the stream's view type; "" if the table has no enabled stream.
	View string
}

func (e *StreamError) Error() string {
	if e.View == "" {
		return fmt.Sprintf("table %s has no enabled stream", e.Table)
	}
	return fmt.Sprintf("the stream of table %s has view type %s, which does not give every row and its removal", e.Table, e.View)
}

// CheckStream reports whether the table's stream is enabled and carries the images that the mapping
// needs (H62). New images are enough if every address depends only on the primary key: then old
// images add nothing about where the item was. Dual writes need the old image too, because it shows
// what may be deleted.
func CheckStream(d backfill.Description, keyOnly bool) error {
	switch {
	case !d.StreamEnabled:
		return &StreamError{Table: d.Name}
	case d.ViewType == "NEW_AND_OLD_IMAGES", d.ViewType == "NEW_IMAGE" && keyOnly:
		return nil
	}
	return &StreamError{Table: d.Name, View: d.ViewType}
}

// KeyError says that the table was recreated with another primary key than the mapping was made
// for. The former key would mix up items of the new table.
type KeyError struct{ Table string }

func (e *KeyError) Error() string {
	return fmt.Sprintf("the primary key of table %s has changed since this process started", e.Table)
}

// CheckKey fails with a *KeyError if the described table has another key than the mapping was made
// for.
func CheckKey(d backfill.Description, m *transform.Mapping) error {
	if len(d.PrimaryKey) == 0 || slices.Equal(d.PrimaryKey, m.PrimaryKey) {
		return nil
	}
	return &KeyError{d.Name}
}

// SourceError says that the table of this name is in another account or region than the followed
// one. Its stream would be taken for a new stream of the same table, and its items would overwrite
// the rows of the followed table.
type SourceError struct {
	Table string
	// Followed and Found are the ARNs of both streams.
	Followed, Found string
}

func (e *SourceError) Error() string {
	return fmt.Sprintf("table %s is in another account or region: its stream is %s, but replicator follows %s", e.Table, e.Found, e.Followed)
}

// CheckSource fails with a *SourceError if the described table is in another partition, region or
// account than the followed stream. It skips a stream that is unknown and ARNs of another form.
func CheckSource(d backfill.Description, followed string) error {
	was, is := owner(followed), owner(d.StreamARN)
	if was == "" || is == "" || was == is {
		return nil
	}
	return &SourceError{Table: d.Name, Followed: followed, Found: d.StreamARN}
}

// RenewedError says that the table, in the right account and region, was recreated or its stream
// was enabled again, and no worker has recorded that yet.
type RenewedError struct {
	Table           string
	Followed, Found string // ARNs of streams, or ids of tables
}

func (e *RenewedError) Error() string {
	return fmt.Sprintf("table %s was recreated, or its stream was enabled again: found %s, but replicator follows %s", e.Table, e.Found, e.Followed)
}

// CheckFollowed fails with a *SourceError as CheckSource does, and with a *RenewedError if the
// described table has another stream or id than the followed one. A worker continues with such a
// table in a new generation. A command that compares or loads before that would take its items for
// those of the former table. Unknown values are skipped.
func CheckFollowed(d backfill.Description, s checkpoint.TableState) error {
	differ := func(was, is string) bool { return was != "" && is != "" && was != is }
	switch load := s.Load; {
	case CheckSource(d, s.StreamARN) != nil:
		return CheckSource(d, s.StreamARN)
	case differ(s.StreamARN, d.StreamARN):
		return &RenewedError{d.Name, s.StreamARN, d.StreamARN}
	case load.Generation == s.Generation && differ(load.TableID, d.ID):
		return &RenewedError{d.Name, load.TableID, d.ID}
	}
	return nil
}

// owner returns partition, service, region and account of an ARN, "" if it is not an ARN. Source:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html
func owner(arn string) string {
	fields := strings.SplitN(arn, ":", 6)
	if len(fields) < 6 || fields[0] != "arn" {
		return ""
	}
	return strings.Join(fields[1:5], ":")
}

// RowsError says that the first generation of a source table would be written into a target table
// with rows of unknown origin.
type RowsError struct{ Table, Target string }

func (e *RowsError) Error() string {
	return fmt.Sprintf("target table %s has rows, and nothing shows that they come from table %s", e.Target, e.Table)
}

// StrangerError says that another migration also writes a target table that is not declared shared.
// A sweep would remove rows of the other migration.
type StrangerError struct {
	Table string
	Other checkpoint.Stranger
}

func (e *StrangerError) Error() string {
	return fmt.Sprintf("table %s is copied there too, and its rows could be removed as orphans: %s", e.Table, e.Other)
}
