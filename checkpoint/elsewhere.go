package checkpoint

import (
	"fmt"
	"strings"
	"time"
)

// SourceError is the error for a table with the expected name whose account or region differs from
// that of the table that the ledger follows. Without this check, its stream would count as a new
// stream of the followed table. Its items would then overwrite the rows.
type SourceError struct {
	Table string
	// Followed is the ARN of the followed stream. Found is the ARN of the table that was found, or of
	// its stream.
	Followed, Found string
}

func (e *SourceError) Error() string {
	return fmt.Sprintf("table %s is in another account or region: found %s, but replicator follows %s", e.Table, e.Found, e.Followed)
}

// CheckSource fails with a *SourceError if the ARN `found` of a table or a stream is in another
// partition, region or account than the followed stream. It does not check an unknown ARN, or an ARN
// of another form.
func CheckSource(table, found, followed string) error {
	was, is := placeOf(followed), placeOf(found)
	if was == "" || is == "" || was == is {
		return nil
	}
	return &SourceError{Table: table, Followed: followed, Found: found}
}

// placeOf returns partition, service, region and account of an ARN, "" if it is not an ARN. Source:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html
func placeOf(arn string) string {
	fields := strings.SplitN(arn, ":", 6)
	if len(fields) < 6 || fields[0] != "arn" {
		return ""
	}
	return strings.Join(fields[1:5], ":")
}

// Follow makes another stream the followed one. It belongs into the change of a Raise.
func (s *TableState) Follow(arn, label string) {
	s.StreamARN, s.Label, s.Listed, s.StreamEnded = arn, label, 0, false
	s.Enabling, s.EnabledAt = false, time.Time{}
}

// RegionOf returns the region of an ARN, "" if it is not an ARN.
func RegionOf(arn string) string {
	place := strings.Split(placeOf(arn), ":")
	if len(place) < 3 {
		return ""
	}
	return place[2]
}

// ReadsFrom records where this process reads the items of a source table: the ARN of the table, ""
// if it is unknown. From then on, a read of the table's record fails with a *SourceError if the
// record follows a table in another account or region. An operator may move a migration to another
// region while this process is suspended. It would otherwise continue with the new record, and copy
// the items of the former region over those of the new one (H148).
func (l *Ledger) ReadsFrom(source, arn string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.origins[source] = arn
}

func (l *Ledger) readsFrom(source string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.origins[source]
}
