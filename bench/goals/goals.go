package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
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

// decoding is one GetRecords: the client as it comes, and ours in it.
func decoding(ctx context.Context, b *bench) error {
	for _, s := range shapes {
		row := "decode a page, " + s.name
		if b.skips(row) {
			continue
		}
		page := newAnswers(streamPage(s, unique(0, s.records)))
		source, client, pages := cdc.NewSource(page.streams(), "arn"), page.streams(), b.times(40)
		sink := make([]byte, len(page.bodies[0]))
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
			})},
			way{"memcpy", repeat(20*pages, func() (int, error) {
				copy(sink, page.bodies[0])
				return s.records, nil
			})})
		if err != nil {
			return err
		}
		b.ratio(row+" / the SDK's", "CPU", cpu, costs[0], costs[1], map[string]string{"large": "<= 0.167"}[s.name]+map[bool]string{true: "<= 0.125"}[s.name != "large"])
		b.ratio(row+" / the SDK's", "allocs", allocs, costs[0], costs[1], map[bool]string{true: "ours < 1"}[s.name == "small"])
		b.ratio(row+" / memcpy", "CPU", cpu, costs[0], costs[2], "")
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
		source, client, pages := cdc.NewSource(page.streams(), "arn"), page.streams(), b.times(30)
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
		b.ratio(row+" / plainly", "CPU", cpu, costs[0], costs[1], "(the goal is against another tool)")
		b.ratio(row+" / plainly", "allocs", allocs, costs[0], costs[1], "")
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

// requests are the guarded writes of a page of small items that differ.
func requests(ctx context.Context, s shape, page []byte) ([]sink.Request, transform.Batch, error) {
	got, err := cdc.NewSource(newAnswers(page).streams(), "arn").Read(ctx, "x")
	if err != nil {
		return nil, transform.Batch{}, err
	}
	batch := transform.Fold(orders, got.Changes, stamp)
	var list []sink.Request
	for _, row := range batch.Rows {
		list = append(list, sink.Guard(row))
	}
	return list, batch, nil
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
	list, batch, err := requests(ctx, shapes[0], streamPage(shapes[0], unique(0, 1000)))
	if err != nil {
		return err
	}
	var prepared []*bigtable.Mutation
	var encoded [][]byte
	for i := range list {
		prepared = append(prepared, mutation(&list[i]))
		encoded = append(encoded, list[i].AppendProto(nil, "projects/p/instances/i/tables/orders", "one"))
	}
	writer, times := sink.NewWriter(sink.Options{Table: t.ours, Parking: noParking{}}), b.times(10)
	many := func(do func(i int) error) func() (int, error) {
		return repeat(times, func() (int, error) { return inFlight(width, len(list), do) })
	}
	costs, err := b.measure(
		way{"the Writer", repeat(times, func() (int, error) {
			again := batch
			again.Rows = append([]transform.RowMutation(nil), batch.Rows...)
			return len(list), writer.Write(ctx, sink.Unfenced(), &again)
		})},
		way{"ours", many(func(i int) error {
			_, err := t.ours.Apply(ctx, &list[i])
			return err
		})},
		way{"the client, prepared", many(func(i int) error { return t.apply(ctx, list[i].Row, prepared[i]) })},
		way{"the client, built", many(func(i int) error { return t.apply(ctx, list[i].Row, mutation(&list[i])) })},
		way{"the same bytes", many(func(i int) error { return t.invoke(ctx, encoded[i]) })})
	if err != nil {
		return err
	}
	b.ratio(row+" / the client, built", "CPU", cpu, costs[1], costs[3], "<= 0.65")
	b.ratio(row+" / the client, built", "allocs", allocs, costs[1], costs[3], "")
	b.ratio(row+" / the client, prepared", "CPU", cpu, costs[1], costs[2], "")
	b.ratio(row+" / the same bytes over gRPC", "CPU", cpu, costs[1], costs[4], "<= 1.3")
	b.ratio(row+" by Writer / the client, built", "CPU", cpu, costs[0], costs[3], "")
	b.ratio(row+" by Writer / the same bytes over gRPC", "CPU", cpu, costs[0], costs[4], "")
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
	var mu sync.Mutex
	var group sync.WaitGroup
	slots := make(chan struct{}, pages)
	for range loops {
		group.Go(func() {
			source := cdc.NewSource(newAnswers(bodies...).streams(), "arn")
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
				failed := writer.Write(ctx, sink.Unfenced(), &batch)
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
	const row = "a page end to end"
	if b.skips(row) {
		return nil
	}
	t, err := startTarget(ctx, 0)
	if err != nil {
		return err
	}
	defer t.close()
	bodies := [][]byte{streamPage(shapes[0], unique(0, 1000)), streamPage(shapes[0], unique(1000, 1000))}
	drawn := [][]byte{streamPage(shapes[0], zipf(1, 1000)), streamPage(shapes[0], zipf(2, 1000))}
	list, _, err := requests(ctx, shapes[0], bodies[0])
	if err != nil {
		return err
	}
	var prepared []*bigtable.Mutation
	for i := range list {
		prepared = append(prepared, mutation(&list[i]))
	}
	writer, times := sink.NewWriter(sink.Options{Table: t.ours, Parking: noParking{}}), b.times(10)
	loops := func(n, pages int, bodies [][]byte) func() (int, error) {
		return func() (int, error) {
			_, rows, err := shards(ctx, writer, n, max(1, pages/n), bodies...)
			return rows, err
		}
	}
	costs, err := b.measure(
		way{"one shard", loops(1, times, bodies)}, way{"four shards", loops(4, times, bodies)}, way{"one shard, Zipf", loops(1, 2*times, drawn)},
		way{"the client, prepared", repeat(times, func() (int, error) {
			return inFlight(width, len(list), func(i int) error { return t.apply(ctx, list[i].Row, prepared[i]) })
		})})
	if err != nil {
		return err
	}
	for i, name := range []string{"one shard", "four shards", "one shard, Zipf"} {
		name = row + ", " + name + " / prepared"
		goals := [2]string{">= 0.9", "<= 1.1"}
		if i == 2 {
			goals = [2]string{}
		}
		b.ratio(name, "rows/s", rate, costs[i], costs[3], goals[0])
		b.ratio(name, "CPU", cpu, costs[i], costs[3], goals[1])
	}
	return nil
}

// copying is a load of four parts, against the same.
func copying(ctx context.Context, b *bench) error {
	const row = "copy"
	if b.skips(row) {
		return nil
	}
	t, err := startTarget(ctx, 0)
	if err != nil {
		return err
	}
	defer t.close()
	body := scanPage(shapes[0], unique(0, 2000))
	list, _, err := requests(ctx, shapes[0], streamPage(shapes[0], unique(0, 1000)))
	if err != nil {
		return err
	}
	var prepared []*bigtable.Mutation
	for i := range list {
		prepared = append(prepared, mutation(&list[i]))
	}
	writer, times := sink.NewWriter(sink.Options{Table: t.ours, Parking: noParking{}}), b.times(10)
	decoded := newAnswers(body)
	tables, plain, table := backfill.NewTables(decoded.tables(backfill.ClientOptions)), decoded.tables(), "Orders"
	costs, err := b.measure(
		way{"ours", func() (int, error) {
			return inFlight(4, max(4, times/2), func(int) error {
				page, err := backfill.NewTables(newAnswers(body).tables(backfill.ClientOptions)).Scan(ctx, table, 0, 1, attribute.Item{}, 0)
				if err != nil {
					return err
				}
				batch := transform.Load(orders, page.Items, 1, time.Unix(1_732_175_999, 0))
				return writer.Write(ctx, sink.Unfenced(), &batch)
			})
		}},
		way{"the client, prepared", repeat(times, func() (int, error) {
			return inFlight(width, len(list), func(i int) error { return t.apply(ctx, list[i].Row, prepared[i]) })
		})},
		way{"decoding ours", repeat(times, func() (int, error) {
			page, err := tables.Scan(ctx, table, 0, 1, attribute.Item{}, 0)
			return len(page.Items), err
		})},
		way{"decoding the SDK's", repeat(times, func() (int, error) {
			out, err := plain.Scan(ctx, &dynamodb.ScanInput{TableName: &table})
			if err != nil {
				return 0, err
			}
			return len(out.Items), nil
		})})
	if err != nil {
		return err
	}
	for i := range costs[0] { // pages to items
		costs[0][i].cpu, costs[0][i].rate, costs[0][i].allocations = costs[0][i].cpu/2000, costs[0][i].rate*2000, costs[0][i].allocations/2000
	}
	b.ratio("decode a page of Scan, small / the SDK's", "CPU", cpu, costs[2], costs[3], "")
	b.ratio(row+" / prepared", "rows/s", rate, costs[0], costs[1], ">= 0.9")
	b.ratio(row+" / prepared", "CPU", cpu, costs[0], costs[1], "")
	return nil
}

// waiting is how much of the rate is kept when the target takes its time: 16 shards.
func waiting(ctx context.Context, b *bench) error {
	const row = "rate kept at latency"
	if b.skips(row) {
		return nil
	}
	body := streamPage(shapes[0], unique(0, 1000))
	latencies, goals := []time.Duration{0, 5 * time.Millisecond, 30 * time.Millisecond}, []string{"", ">= 0.9", ">= 0.75"}
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
	_, batch, err := requests(ctx, shapes[0], streamPage(shapes[0], zipf(1, 1000)))
	if err == nil {
		b.alone(row, "rows", float64(len(batch.Rows))/1000, "<= 0.42")
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
	b.alone(row, "MB", megabytes, "<= 384")
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
