package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// trouble injects faults while the workload runs, each at a fixed fraction of the workload's
// duration.
func (d *demo) trouble(ctx context.Context) error {
	began := time.Now()
	for _, event := range []struct {
		at float64 // fraction of the duration
		do func(context.Context) error
	}{
		{0.08, d.lateListings},
		{0.10, d.split},
		{0.18, d.roll},
		{0.25, d.crash},
		{0.30, d.replace},
		{0.40, d.split}, // while no worker reads
		{0.65, d.throttle},
		{0.72, d.expire},
		{0.80, d.split},
		{0.88, d.roll},
	} {
		wait := time.Duration(event.at*float64(d.liveTime())) - time.Since(began)
		select {
		case <-ctx.Done():
			return nil // the caller that ended the context reports the reason
		case <-time.After(wait):
		}
		if err := event.do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// lateListings makes new shards appear late in listings, as DynamoDB's listings are eventually
// consistent.
func (d *demo) lateListings(context.Context) error {
	const late = 500 * time.Millisecond
	if err := d.services.dynamo.DelayListing(tableName, late, late); err != nil {
		return err
	}
	d.say("the stream now lists new shards %s late", late)
	return nil
}

// hottest returns the open shard with the most records.
func (d *demo) hottest() (string, error) {
	shards, err := d.services.dynamo.Shards(tableName)
	if err != nil {
		return "", err
	}
	found := ""
	most := -1
	for _, s := range shards {
		if s.Open && s.Records > most {
			found, most = s.ID, s.Records
		}
	}
	if found == "" {
		return "", fmt.Errorf("table %s has no open shard", tableName)
	}
	return found, nil
}

func (d *demo) split(context.Context) error {
	id, err := d.hottest()
	if err != nil {
		return err
	}
	children, err := d.services.dynamo.SplitShard(tableName, id)
	if err != nil {
		return err
	}
	d.say("shard %s splits into %s and %s", short(id), short(children[0]), short(children[1]))
	return nil
}

func (d *demo) roll(context.Context) error {
	id, err := d.hottest()
	if err != nil {
		return err
	}
	child, err := d.services.dynamo.RollShard(tableName, id)
	if err != nil {
		return err
	}
	d.say("shard %s ends and continues as %s", short(id), short(child))
	return nil
}

// crash kills the worker with the most leases. The worker can neither finish its writes nor release
// its leases.
func (d *demo) crash(ctx context.Context) error {
	var victim *worker
	most := -1.0
	for _, w := range d.all() {
		if leases := w.observe(ctx).leases; leases > most {
			victim, most = w, leases
		}
	}
	victim.kill()
	d.say("worker %s, which holds %s, is killed (SIGKILL); the other worker takes over when the leases end", victim.name, terminal.Plural(int(most), "lease"))
	return nil
}

func (d *demo) replace(context.Context) error {
	_, err := d.start("c")
	return err
}

func (d *demo) throttle(context.Context) error {
	d.services.dynamo.Fail(dynamodbtest.Fault{Operation: "GetRecords", Error: "ProvisionedThroughputExceededException", Times: 20})
	d.services.dynamo.Fail(dynamodbtest.Fault{Operation: "GetRecords", Error: "InternalServerError", Times: 5, Skip: 20})
	d.say("the stream throttles 20 reads and fails 5 more")
	return nil
}

func (d *demo) expire(context.Context) error {
	if err := d.services.dynamo.ExpireIterators(tableName); err != nil {
		return err
	}
	d.say("all shard iterators expire")
	return nil
}

// short returns the end of a shard's id, which is enough to distinguish shards.
func short(id string) string { return "…" + id[max(0, len(id)-6):] }
