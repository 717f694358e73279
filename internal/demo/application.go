package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/bigtable"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Application is an application that writes both databases: DynamoDB first, then Bigtable, without
// any order between its servers. It causes every difficulty of dual writes. Servers race for the
// same items, and their clocks differ. The second write may arrive just before the deadline, or
// never. Some writes delete whole rows.
type Application struct {
	DynamoDB string // the endpoint, such as http://127.0.0.1:8000
	Bigtable string // the address of an emulator
	Project  string // project of the target
	Instance string // instance of the target
	// Items is the number of items that the servers change, from the table's first item.
	Items    int
	Rate     float64       // changes a second
	Duration time.Duration // how long to write, unless the context ends earlier
	// Deadline is how long after the commit in DynamoDB a server abandons the second write.
	Deadline time.Duration
	Skew     time.Duration // how far the servers' clocks may be ahead or behind
	Seed     uint64

	client  *dynamodb.Client
	rows    *bigtable.Client
	mapping *transform.Mapping
	// pending counts the second writes that are in flight.
	pending sync.WaitGroup
	counts  applicationCounts
}

// applicationCounts counts the actions of an application.
type applicationCounts struct {
	Changes, Refused, Late, Missing, RowsDeleted atomic.Int64
}

// String returns the counts in one line.
func (a *Application) String() string {
	c := &a.counts
	return fmt.Sprintf("%d changes in DynamoDB, %d rejected by their condition; of the writes to Bigtable, %d came late, %d were lost, %d deleted a whole row",
		c.Changes.Load(), c.Refused.Load(), c.Late.Load(), c.Missing.Load(), c.RowsDeleted.Load())
}

// servers is the number of servers that race.
const servers = 6

// Run writes until the duration is over or ctx ends, and then waits for in-flight writes.
func (a *Application) Run(ctx context.Context) error {
	conn, err := grpc.NewClient("passthrough:///"+a.Bigtable, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	a.rows, err = bigtable.NewClientWithConfig(ctx, a.Project, a.Instance,
		bigtable.ClientConfig{DisableSession: true, MetricsProvider: bigtable.NoopMetricsProvider{}}, option.WithGRPCConn(conn))
	if err != nil {
		return err
	}
	a.client = dynamodb.NewFromConfig(aws.Config{Region: region, Credentials: credentials.NewStaticCredentialsProvider(credential, credential, ""), BaseEndpoint: &a.DynamoDB})
	description, err := backfill.NewTables(a.client).Describe(ctx, tableName)
	if err != nil {
		return err
	}
	if a.mapping, err = transform.NewMapping(tableName, tableName, config.DataFamily, description.PrimaryKey); err != nil {
		return err
	}
	writing, cancel := context.WithTimeout(ctx, a.Duration)
	defer cancel()
	limiter := rate.NewLimiter(rate.Limit(a.Rate), servers)
	g := new(errgroup.Group)
	for n := range servers {
		g.Go(func() error {
			r := rand.New(rand.NewPCG(a.Seed, uint64(n)))
			skew := a.Skew * time.Duration(2*n-servers+1) / (servers - 1)
			for limiter.Wait(writing) == nil {
				if err := a.change(context.WithoutCancel(ctx), r, skew); err != nil {
					return fmt.Errorf("the application's write failed: %w", err)
				}
			}
			return nil
		})
	}
	err = g.Wait()
	a.pending.Wait()
	return err
}

// change makes one change in DynamoDB. If DynamoDB accepts it, change also makes it in Bigtable,
// some time before the deadline.
func (a *Application) change(ctx context.Context, r *rand.Rand, skew time.Duration) error {
	old, image, err := a.first(ctx, r)
	var refused *types.ConditionalCheckFailedException
	if errors.As(err, &refused) {
		a.counts.Refused.Add(1)
		return nil // after a failed condition, Bigtable must not be written
	}
	if err != nil {
		return err
	}
	a.counts.Changes.Add(1)
	committed := time.Now()
	if r.IntN(20) == 0 {
		a.counts.Missing.Add(1) // simulates a server that ends between its two writes
		return nil
	}
	delay, whole := time.Duration(r.Int64N(int64(50*time.Millisecond))), r.IntN(2) == 0
	if r.IntN(3) == 0 {
		a.counts.Late.Add(1)
		delay = time.Duration(r.Int64N(int64(a.Deadline)))
	}
	row, mutation, err := a.second(old, image, committed.Add(delay+skew), whole)
	if err != nil || row == "" {
		return err // the deleted item did not exist, so Bigtable needs no write
	}
	a.pending.Add(1)
	time.AfterFunc(delay, func() {
		defer a.pending.Done()
		ctx, cancel := context.WithDeadline(ctx, committed.Add(a.Deadline))
		defer cancel()
		if a.rows.Open(tableName).Apply(ctx, row, mutation) != nil {
			a.counts.Missing.Add(1)
		}
	})
	return nil
}

// first writes to DynamoDB, and returns the images before and after the change.
func (a *Application) first(ctx context.Context, r *rand.Rand) (old, image attribute.Item, err error) {
	id := identityOf(r.IntN(a.Items))
	if r.IntN(3) == 0 {
		id = identityOf(r.IntN(min(hotItems, a.Items)))
	}
	if r.IntN(5) == 0 {
		out, err := a.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: aws.String(tableName), Key: id.key(), ReturnValues: types.ReturnValueAllOld})
		if err != nil {
			return old, image, err
		}
		old, err = backfill.ConvertItem(out.Attributes)
		return old, image, err
	}
	it := newItem(r, id)
	for _, name := range attributes {
		if r.IntN(2) == 0 {
			delete(it, name)
		}
	}
	in := &dynamodb.PutItemInput{TableName: aws.String(tableName), Item: it, ReturnValues: types.ReturnValueAllOld}
	if r.IntN(10) == 0 {
		in.ConditionExpression = aws.String("attribute_not_exists(" + partitionKey + ")")
	}
	out, err := a.client.PutItem(ctx, in)
	if err != nil {
		return old, image, err
	}
	if old, err = backfill.ConvertItem(out.Attributes); err == nil {
		image, err = backfill.ConvertItem(it)
	}
	return old, image, err
}

// second returns the write to Bigtable, with the time of the server's own clock. The write deletes
// the columns of the old item, and sets the columns of the new item. For a removed item, it deletes
// the old columns or the whole row. If there is nothing to write, `row` is empty.
func (a *Application) second(old, image attribute.Item, at time.Time, whole bool) (row string, m *bigtable.Mutation, err error) {
	m = bigtable.NewMutation()
	for _, item := range []attribute.Item{old, image} {
		if !item.Exists() {
			continue
		}
		placed, err := a.mapping.Map(item, at)
		if err != nil {
			return "", nil, err
		}
		// Without rules, each item has exactly one row.
		row = placed.Rows[0].Row
		for _, c := range placed.Rows[0].Cells {
			m.DeleteCellsInColumn(c.Family, c.Qualifier)
		}
		if !image.Exists() && whole {
			a.counts.RowsDeleted.Add(1)
			m = bigtable.NewMutation()
			m.DeleteRow()
		}
	}
	if !image.Exists() {
		return row, m, nil
	}
	placed, err := a.mapping.Map(image, at)
	if err != nil {
		return "", nil, err
	}
	for _, c := range placed.Rows[0].Cells {
		m.Set(c.Family, c.Qualifier, bigtable.Timestamp(max(0, at.UnixMilli())*1000), c.Value)
	}
	return row, m, nil
}
