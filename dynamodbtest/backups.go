package dynamodbtest

import "time"

// maxRecoveryDays is the maximum and default time for which the service keeps backups.
const maxRecoveryDays = 35

type recoverySpecification struct {
	PointInTimeRecoveryEnabled *bool
	RecoveryPeriodInDays       *int
}

type updateBackupsRequest struct {
	tableRef
	PointInTimeRecoverySpecification *recoverySpecification
}

type backupsDescription struct {
	ContinuousBackupsStatus        string
	PointInTimeRecoveryDescription recoveryDescription
}

type recoveryDescription struct {
	PointInTimeRecoveryStatus  string
	RecoveryPeriodInDays       int      `json:",omitempty"`
	EarliestRestorableDateTime *seconds `json:",omitempty"`
	LatestRestorableDateTime   *seconds `json:",omitempty"`
}

func (t *table) describeBackups(now time.Time, lag time.Duration) any {
	d := recoveryDescription{PointInTimeRecoveryStatus: "DISABLED"}
	if h := t.history; h != nil {
		first, last := seconds(h.first(now)), seconds(h.last(now, lag))
		d = recoveryDescription{"ENABLED", h.days, &first, &last}
	}
	return struct{ ContinuousBackupsDescription backupsDescription }{backupsDescription{"ENABLED", d}}
}

func (s *Server) describeBackups(ref *tableRef) (any, error) {
	t, err := s.findNamed(*ref)
	if err != nil {
		return nil, err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.describeBackups(s.Now(), s.opts.RecoveryLag), nil
}

// updateBackups turns point-in-time recovery on or off. While it is on, every image of every item
// is kept. Turning it off deletes the history. So when it is turned on again, the history begins
// anew.
func (s *Server) updateBackups(req *updateBackupsRequest) (any, error) {
	spec := req.PointInTimeRecoverySpecification
	if spec == nil || spec.PointInTimeRecoveryEnabled == nil {
		return nil, missingMember("pointInTimeRecoverySpecification.pointInTimeRecoveryEnabled")
	}
	days := maxRecoveryDays
	if spec.RecoveryPeriodInDays != nil {
		days = *spec.RecoveryPeriodInDays
	}
	if days < 1 || days > maxRecoveryDays {
		return nil, validation("RecoveryPeriodInDays must be between 1 and %d", maxRecoveryDays)
	}
	t, err := s.findNamed(req.tableRef)
	if err != nil {
		return nil, err
	}
	if err := t.lock(); err != nil {
		return nil, err
	}
	defer t.mu.Unlock()
	now := s.Now()
	switch {
	case !*spec.PointInTimeRecoveryEnabled:
		t.history = nil
	case t.history != nil:
		t.history.days = days
	default:
		if err := t.remember(now, days); err != nil {
			return nil, err
		}
	}
	return t.describeBackups(now, s.opts.RecoveryLag), nil
}
