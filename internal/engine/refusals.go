package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// StreamError says that a table has no stream from which its rows could be kept equal to its items.
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

// CheckStream tells whether the table's stream is enabled and carries what the mapping needs (H62).
// New images alone do when every address depends on the primary key alone, for then the old image
// tells nothing of where the item was. Under dual writes the old image is needed too: it tells what
// may be deleted.
func CheckStream(d backfill.Description, keyOnly bool) error {
	switch {
	case !d.StreamEnabled:
		return &StreamError{Table: d.Name}
	case d.ViewType == "NEW_AND_OLD_IMAGES", d.ViewType == "NEW_IMAGE" && keyOnly:
		return nil
	}
	return &StreamError{Table: d.Name, View: d.ViewType}
}

// KeyError says that the table of this name has another primary key than the mapping was made for:
// it was created anew. By the former key items of the new one would be taken for each other.
type KeyError struct{ Table string }

func (e *KeyError) Error() string {
	return fmt.Sprintf("the primary key of table %s has changed since this process started", e.Table)
}

// CheckKey fails with a *KeyError if a mapping was made for another key than that of the table that
// was described.
func CheckKey(d backfill.Description, m *transform.Mapping) error {
	if len(d.PrimaryKey) == 0 || slices.Equal(d.PrimaryKey, m.PrimaryKey) {
		return nil
	}
	return &KeyError{d.Name}
}

// SourceError says that the table of this name is not the one that is followed: it is in another
// account or region. Its stream would be taken for a new one of the same table, and its items would
// be written over those of the other.
type SourceError struct {
	Table string
	// Followed and Found are the ARNs of both streams.
	Followed, Found string
}

func (e *SourceError) Error() string {
	return fmt.Sprintf("table %s is in another account or region: its stream is %s, but replicator follows %s", e.Table, e.Found, e.Followed)
}

// CheckSource fails with a *SourceError if the table that was described is in another partition,
// region or account than the stream that is followed. A stream that is not known, and an ARN of
// another form, are passed over.
func CheckSource(d backfill.Description, followed string) error {
	was, is := owner(followed), owner(d.StreamARN)
	if was == "" || is == "" || was == is {
		return nil
	}
	return &SourceError{Table: d.Name, Followed: followed, Found: d.StreamARN}
}

// RenewedError says that the table of this name, in the right account and region, is not the one
// that is followed, or has another stream: it was created anew, or its stream was enabled again,
// and no worker has noted that yet.
type RenewedError struct {
	Table           string
	Followed, Found string // streams, or else ids of tables
}

func (e *RenewedError) Error() string {
	return fmt.Sprintf("table %s was created anew, or its stream was enabled again: found is %s, but replicator follows %s", e.Table, e.Found, e.Followed)
}

// CheckFollowed fails with a *SourceError as CheckSource, and with a *RenewedError if the table
// that was described has another stream or another id than the one that is followed. A worker goes
// on with such a table in a new generation. Who compares before that, or loads, would take its
// items for those of the former one. What is not known is passed over.
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

// owner is partition, service, region and account of an ARN, "" if it is none.
// Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html
func owner(arn string) string {
	fields := strings.SplitN(arn, ":", 6)
	if len(fields) < 6 || fields[0] != "arn" {
		return ""
	}
	return strings.Join(fields[1:5], ":")
}

// RowsError says that the first generation of a source table would be written into a target table
// with rows of which nobody knows whose they are.
type RowsError struct{ Table, Target string }

func (e *RowsError) Error() string {
	return fmt.Sprintf("target table %s has rows, and nothing shows that they come from table %s", e.Target, e.Table)
}

// StrangerError says that another migration writes a target table of the source table, which does
// not say that it is shared: what removes rows would take those of the other for ours.
type StrangerError struct {
	Table string
	Other checkpoint.Stranger
}

func (e *StrangerError) Error() string {
	return fmt.Sprintf("table %s is copied there too, and its rows could be removed for orphans: %s", e.Table, e.Other)
}
