package notify

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// pulse returns the error of the last heartbeat.
func (s *Sender) pulse() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.beat
}

// beats asks the heartbeat's address each minute, if the state of the migration was read since the
// last time.
func (s *Sender) beats(ctx context.Context, began time.Duration) {
	trouble := outage{log: s.log, operation: "send heartbeats", receiver: heartbeatName}
	for ctx.Err() == nil {
		m, at := s.after(began)
		if m == nil {
			_ = task.Sleep(ctx, passEvery)
			continue
		}
		began = at
		err := ask(ctx, s.client, s.heartbeat)
		if ctx.Err() != nil {
			return
		}
		trouble.note(err)
		s.mu.Lock()
		s.beat = err
		s.mu.Unlock()
		outcome := sent
		if err != nil {
			outcome = failed
		}
		s.count(heartbeatName, outcome)
		_ = task.Sleep(ctx, beatEvery)
	}
}

// ask asks the heartbeat's address.
func ask(ctx context.Context, client *http.Client, address string) error {
	ctx, cancel := task.WithTimeout(ctx, answerTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return errors.New("the address is not valid")
	}
	return answered(client, request)
}
