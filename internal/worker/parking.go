package worker

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// publishedLot is the parking lot for a configuration with a topic in errors.park_to.
type publishedLot struct {
	sink.ParkingLot
	topic     relay.Topic
	migration string
}

// lot returns the parking lot of this configuration.
func (w *Worker) lot(parking *sink.Parking) sink.ParkingLot {
	if w.parkTopic == nil {
		return parking
	}
	return publishedLot{parking, w.parkTopic, w.Config.Name}
}

// Park implements sink.ParkingLot. It writes the record first and then publishes the message, so
// that a reader of the topic finds the record in the state table. The caller retries Park until
// both steps have succeeded, so a message may be published twice.
func (l publishedLot) Park(ctx context.Context, p transform.Parked) error {
	if err := l.ParkingLot.Park(ctx, p); err != nil {
		return err
	}
	m, err := relay.EncodeParked(l.migration, string(sink.RefOf(p)), p)
	if err != nil {
		return err
	}
	outcomes, _ := l.topic.Publish(ctx, []relay.Message{m})
	return outcomes[0]
}
