package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"google.golang.org/protobuf/proto"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

var orders = func() *transform.Mapping {
	m, err := transform.NewMapping("Orders", "orders", "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}})
	if err != nil {
		panic(err)
	}
	return m
}()

var stamp = transform.Stamp{Generation: 1, Hop: 500_000}

// worker is the stream as a worker reads it that does not publish: the mapping needs no old images.
func worker(page *answers) cdc.Source {
	return cdc.WithoutOldImages(cdc.NewSource(page.streams(), "arn"))
}

// decoding is one GetRecords: the client as it comes, and ours in it.
func decoding(ctx context.Context, b *bench) error {
	for _, s := range shapes {
		row := "decode a page, " + s.name
		if b.skips(row) {
			continue
		}
		page := newAnswers(streamPage(s, unique(0, s.records)))
		source, client, pages := cdc.NewSource(page.streams(), "arn"), page.streams(), b.times(40)
		costs, err := b.measure(
			way{"ours", repeat(pages, func() (int, error) {
				got, err := source.Read(ctx, "x")
				return len(got.Changes), err
			})},
			way{"the SDK's", repeat(pages, func() (int, error) {
				out, err := client.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: aws.String("x")})
				if err != nil {
					return 0, err
				}
				return len(out.Records), nil
			})})
		if err != nil {
			return err
		}
		b.ratio(row+" / the SDK's", "CPU", cpu, costs[0], costs[1], atMost(0.3))
		if s.name == "small" {
			b.alone(row, "allocs", medianOf(costs[0], allocs), atMost(1))
		}
	}
	return nil
}

func repeat(times int, do func() (int, error)) func() (int, error) {
	return func() (all int, err error) {
		for range times {
			n, err := do()
			if err != nil {
				return 0, err
			}
			all += n
		}
		return all, nil
	}
}

// encoding goes from the body of a page to the bytes of requests. The baseline decodes with the SDK and maps its types to the
// messages of a conditional write, one attribute a column, and marshals them: what a plain program does.
func encoding(ctx context.Context, b *bench) error {
	for _, s := range shapes {
		row := "decode, map and encode, " + s.name
		if b.skips(row) {
			continue
		}
		page := newAnswers(streamPage(s, unique(0, s.records)))
		source, client, pages := worker(page), page.streams(), b.times(30)
		var buffer []byte
		costs, err := b.measure(
			way{"ours", repeat(pages, func() (int, error) {
				got, err := source.Read(ctx, "x")
				batch := transform.Fold(orders, got.Changes, stamp)
				for i := range batch.Rows {
					request := sink.Guard(batch.Rows[i])
					buffer = request.AppendProto(buffer[:0], "projects/p/instances/i/tables/orders", "one")
				}
				return len(batch.Rows), err
			})},
			way{"plain", repeat(pages, func() (int, error) {
				out, err := client.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: aws.String("x")})
				if err != nil {
					return 0, err
				}
				for i := range out.Records {
					if buffer, err = (proto.MarshalOptions{}).MarshalAppend(buffer[:0], plainRequest(&out.Records[i])); err != nil {
						return 0, err
					}
				}
				return len(out.Records), nil
			})})
		if err != nil {
			return err
		}
		b.ratio(row+" / plainly", "CPU", cpu, costs[0], costs[1], atMost(map[string]float64{"small": 0.29, "medium": 0.25, "large": 0.31}[s.name]))
	}
	return nil
}

func plainRequest(r *types.Record) *bigtablepb.CheckAndMutateRowRequest {
	request := &bigtablepb.CheckAndMutateRowRequest{TableName: "projects/p/instances/i/tables/orders", AppProfileId: "one"}
	key, _ := r.Dynamodb.Keys["pk"].(*types.AttributeValueMemberS)
	request.RowKey = []byte(key.Value)
	request.PredicateFilter = &bigtablepb.RowFilter{Filter: &bigtablepb.RowFilter_ValueRangeFilter{ValueRangeFilter: &bigtablepb.ValueRange{
		StartValue: &bigtablepb.ValueRange_StartValueClosed{StartValueClosed: []byte(*r.Dynamodb.SequenceNumber)}}}}
	for name, value := range r.Dynamodb.NewImage {
		request.FalseMutations = append(request.FalseMutations, &bigtablepb.Mutation{Mutation: &bigtablepb.Mutation_SetCell_{SetCell: &bigtablepb.Mutation_SetCell{
			FamilyName: "d", ColumnQualifier: []byte(name), TimestampMicros: r.Dynamodb.ApproximateCreationDateTime.UnixMicro(), Value: plainValue(nil, value)}}})
	}
	return request
}

// plainValue is a scalar's text, or something like JSON of what nests.
func plainValue(b []byte, value types.AttributeValue) []byte {
	switch v := value.(type) {
	case *types.AttributeValueMemberS:
		return append(b, v.Value...)
	case *types.AttributeValueMemberN:
		return append(b, v.Value...)
	case *types.AttributeValueMemberB:
		return base64.StdEncoding.AppendEncode(b, v.Value)
	case *types.AttributeValueMemberBOOL:
		return strconv.AppendBool(b, v.Value)
	case *types.AttributeValueMemberM:
		for name, member := range v.Value {
			b = plainValue(append(strconv.AppendQuote(b, name), ':'), member)
		}
	case *types.AttributeValueMemberL:
		for _, element := range v.Value {
			b = append(plainValue(b, element), ',')
		}
	case *types.AttributeValueMemberSS:
		for _, member := range v.Value {
			b = strconv.AppendQuote(b, member)
		}
	case *types.AttributeValueMemberNS:
		for _, member := range v.Value {
			b = strconv.AppendQuote(b, member)
		}
	}
	return b
}

// requests are the guarded writes of a page, stamped as the product stamps them.
func requests(ctx context.Context, page []byte) ([]sink.Request, transform.Batch, error) {
	got, err := cdc.NewSource(newAnswers(page).streams(), "arn").Read(ctx, "x")
	if err != nil {
		return nil, transform.Batch{}, err
	}
	batch := transform.Fold(orders, got.Changes, stamp)
	var list []sink.Request
	for _, row := range batch.Rows {
		request := sink.Guard(row)
		request.Ops = slices.Insert(request.Ops, 0, sink.Op{Kind: sink.SetCell, Family: mark.Family, Qualifier: "f"}, sink.Op{Kind: sink.DeleteFamily, Family: mark.Family})
		list = append(list, request)
	}
	return list, batch, nil
}

// mark is the fence's number under which everything is written.
var mark = sink.Mark{Family: sink.FenceFamily("bench", 29_539_680), Number: 29_539_680}

// proved are the stamps of a worker that holds its lease.
func proved(ctx context.Context) sink.Stamps {
	stamps, err := sink.Prove(ctx, sink.ApplicationGate(), orders.Tables(), func(context.Context, string) (sink.Mark, error) { return mark, nil },
		func(context.Context) error { return nil })
	if err != nil {
		panic(err)
	}
	return stamps
}

// prepare returns mutations of Bigtable's client for requests.
func prepare(list []sink.Request) (prepared []*bigtable.Mutation) {
	for i := range list {
		prepared = append(prepared, mutation(&list[i]))
	}
	return prepared
}

const width = 64 // requests in flight, where that is fixed

// writing is a guarded write: the client with mutations that exist already, and with building them; the same bytes over gRPC
// alone; ours, and ours with the Writer above it.
func writing(ctx context.Context, b *bench) error {
	const row = "guarded write"
	if b.skips(row) {
		return nil
	}
	t, err := startTarget(ctx, 0)
	if err != nil {
		return err
	}
	defer t.close()
	list, batch, err := requests(ctx, streamPage(shapes[0], unique(0, 1000)))
	if err != nil {
		return err
	}
	prepared := prepare(list)
	writer, stamps, times := sink.NewWriter(sink.Options{Table: t.ours, Parking: noParking{}}), proved(ctx), b.times(10)
	many := func(do func(i int) error) func() (int, error) {
		return repeat(times, func() (int, error) { return inFlight(width, len(list), do) })
	}
	costs, err := b.measure(
		way{"the Writer", repeat(times, func() (int, error) {
			again := batch
			again.Rows = append([]transform.RowMutation(nil), batch.Rows...)
			return len(list), writer.Write(ctx, stamps, &again)
		})},
		way{"ours", many(func(i int) error {
			_, err := t.ours.Apply(ctx, &list[i])
			return err
		})},
		way{"the client, prepared", many(func(i int) error { return t.apply(ctx, list[i].Row, prepared[i]) })},
		way{"the client, built", many(func(i int) error { return t.apply(ctx, list[i].Row, mutation(&list[i])) })})
	if err != nil {
		return err
	}
	b.ratio(row+" / the client, built", "CPU", cpu, costs[1], costs[3], atMost(0.5))
	b.ratio(row+" by Writer / the client, prepared", "CPU", cpu, costs[0], costs[2], atMost(0.8))
	return nil
}

// noParking refuses to park: no item of these pages is to be.
type noParking struct{}

func (noParking) Park(context.Context, transform.Parked) error { return sink.ErrParkedLimit }

func (noParking) Supersede(context.Context, string, string, transform.Version) error { return nil }

func (noParking) Count(context.Context, int) (int, error) { return 0, nil }

// pages is how many are held at once over all shards, as internal/pipeline bounds them.
const pages = 24

// shards follow pages in loops of their own over one Writer, as a worker does, without a ledger: the
// next page is read while one is written, if there is a place for it.
func shards(ctx context.Context, writer *sink.Writer, loops, each int, bodies ...[]byte) (records, rows int, err error) {
	stamps := proved(ctx)
	var mu sync.Mutex
	var group sync.WaitGroup
	slots := make(chan struct{}, pages)
	for range loops {
		group.Go(func() {
			source := worker(newAnswers(bodies...))
			var ahead chan cdc.Page
			read := func() (page cdc.Page) {
				page, failed := source.Read(ctx, "x")
				if failed != nil {
					mu.Lock()
					defer mu.Unlock()
					err = failed
				}
				return page
			}
			for n := range each {
				var page cdc.Page
				if ahead != nil {
					page, ahead = <-ahead, nil
				} else {
					slots <- struct{}{}
					page = read()
				}
				if n > 0 && n < each-1 {
					select {
					case slots <- struct{}{}:
						ahead = make(chan cdc.Page, 1)
						go func(to chan cdc.Page) { to <- read() }(ahead)
					default:
					}
				}
				batch := transform.Fold(orders, page.Changes, stamp)
				written := len(batch.Rows)
				failed := writer.Write(ctx, stamps, &batch)
				<-slots
				mu.Lock()
				records, rows = records+len(page.Changes), rows+written
				if failed != nil {
					err = failed
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return records, rows, err
}

// following is a page from its body to the target, against the client's requests alone, which are prepared: the target is the same.
func following(ctx context.Context, b *bench) error {
	for _, part := range []struct {
		name    string
		shape   shape
		loops   int
		cpuGoal float64
	}{{"one shard", shapes[0], 1, 1}, {"four shards", shapes[0], 4, 1}, {"one shard, medium", shapes[1], 1, 1.2}, {"four shards, medium", shapes[1], 4, 1.2}} {
		row := "a page end to end, " + part.name
		if b.skips(row) {
			continue
		}
		t, err := startTarget(ctx, 0)
		if err != nil {
			return err
		}
		defer t.close()
		n := part.shape.records
		list, _, err := requests(ctx, streamPage(part.shape, unique(0, n)))
		if err != nil {
			return err
		}
		prepared, writer, times := prepare(list), sink.NewWriter(sink.Options{Table: t.ours, Parking: noParking{}}), b.times(10*shapes[0].records/n)
		bodies := [][]byte{streamPage(part.shape, unique(0, n)), streamPage(part.shape, unique(n, n))}
		costs, err := b.measure(
			way{"ours", func() (int, error) {
				_, rows, err := shards(ctx, writer, part.loops, max(1, times/part.loops), bodies...)
				return rows, err
			}},
			way{"the client, prepared", repeat(times, func() (int, error) {
				return inFlight(width, len(list), func(i int) error { return t.apply(ctx, list[i].Row, prepared[i]) })
			})})
		if err != nil {
			return err
		}
		b.ratio(row+" / prepared", "rows/s", rate, costs[0], costs[1], atLeast(0.9))
		b.ratio(row+" / prepared", "CPU", cpu, costs[0], costs[1], atMost(part.cpuGoal))
	}
	return nil
}

// copying is a load of four parts, against the same.
func copying(ctx context.Context, b *bench) error {
	for _, s := range shapes {
		row := "copy, " + s.name
		if b.skips(row) {
			continue
		}
		t, err := startTarget(ctx, 0)
		if err != nil {
			return err
		}
		defer t.close()
		items := 2 * s.records
		body := scanPage(s, unique(0, items))
		list, _, err := requests(ctx, streamPage(s, unique(0, s.records)))
		if err != nil {
			return err
		}
		prepared, writer, table, stamps := prepare(list), sink.NewWriter(sink.Options{Table: t.ours, Parking: noParking{}}), "Orders", proved(ctx)
		pages := b.times(10 * shapes[0].records / s.records / s.cost)
		costs, err := b.measure(
			way{"ours", func() (int, error) {
				n, err := inFlight(4, max(4, pages/2), func(int) error {
					page, err := backfill.NewTables(newAnswers(body).tables(backfill.ClientOptions)).Scan(ctx, table, 0, 1, attribute.Item{}, 0)
					if err != nil {
						return err
					}
					batch := transform.Load(orders, page.Items, 1, time.Unix(1_732_175_999, 0))
					return writer.Write(ctx, stamps, &batch)
				})
				return n * items, err
			}},
			way{"the client, prepared", repeat(pages, func() (int, error) {
				return inFlight(width, len(list), func(i int) error { return t.apply(ctx, list[i].Row, prepared[i]) })
			})})
		if err != nil {
			return err
		}
		b.ratio(row+" / prepared", "rows/s", rate, costs[0], costs[1], atLeast(0.9))
	}
	return nil
}

// waiting is how much of the rate is kept when the target takes its time: 16 shards.
func waiting(ctx context.Context, b *bench) error {
	const row = "rate kept at latency"
	if b.skips(row) {
		return nil
	}
	body := streamPage(shapes[0], unique(0, 1000))
	latencies, goals := []time.Duration{0, 5 * time.Millisecond, 30 * time.Millisecond}, []goal{{}, atLeast(0.9), atLeast(0.8)}
	var ways []way
	for _, latency := range latencies {
		t, err := startTarget(ctx, latency)
		if err != nil {
			return err
		}
		defer t.close()
		writer := sink.NewWriter(sink.Options{Table: t.ours, Parking: noParking{}})
		ways = append(ways, way{latency.String(), func() (int, error) {
			_, rows, err := shards(ctx, writer, 16, b.times(4), body)
			return rows, err
		}})
	}
	costs, err := b.measure(ways...)
	if err != nil {
		return err
	}
	for i := 1; i < len(ways); i++ {
		b.ratio(fmt.Sprintf("%s %s / none", row, ways[i].name), "rows/s", rate, costs[i], costs[0], goals[i])
	}
	return nil
}

// folding is how many rows are written for a record when keys are drawn by Zipf.
func folding(ctx context.Context, b *bench) error {
	const row = "rows for a record, Zipf 1.1"
	if b.skips(row) {
		return nil
	}
	_, batch, err := requests(ctx, streamPage(shapes[0], zipf(1, 1000)))
	if err == nil {
		b.alone(row, "rows", float64(len(batch.Rows))/1000, atMost(0.42))
	}
	return err
}

// remembering is the most memory that a process of 64 busy shards ever held, in one of its own.
func remembering(_ context.Context, b *bench) error {
	const row = "memory of 64 busy shards"
	if b.skips(row) {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	out, err := exec.Command(self, "-hold", "64").Output()
	if err != nil {
		return err
	}
	megabytes, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	b.alone(row, "MB", megabytes, atMost(80+64*4))
	return err
}

// hold follows so many shards and prints the most memory that was resident, in megabytes.
func hold(ctx context.Context, loops int) error {
	t, err := startTarget(ctx, 30*time.Millisecond)
	if err != nil {
		return err
	}
	defer t.close()
	writer := sink.NewWriter(sink.Options{Table: t.ours, Parking: noParking{}})
	if _, _, err := shards(ctx, writer, loops, 3, streamPage(shapes[0], unique(0, 1000))); err != nil {
		return err
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		if kilobytes, found := strings.CutPrefix(line, "VmHWM:"); found {
			n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kilobytes), "kB")), 64)
			fmt.Println(n / 1024)
			return err
		}
	}
	return fmt.Errorf("no VmHWM in /proc/self/status")
}
