package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/dynamodb-bigtable/replicator/sink"
)

// discarding is a Bigtable that applies everything and keeps nothing.
type discarding struct {
	bigtablepb.UnimplementedBigtableServer
	latency time.Duration
}

func (d discarding) CheckAndMutateRow(context.Context, *bigtablepb.CheckAndMutateRowRequest) (*bigtablepb.CheckAndMutateRowResponse, error) {
	time.Sleep(d.latency)
	return &bigtablepb.CheckAndMutateRowResponse{}, nil
}

// ReadRows finds no row.
func (d discarding) ReadRows(*bigtablepb.ReadRowsRequest, bigtablepb.Bigtable_ReadRowsServer) error {
	time.Sleep(d.latency)
	return nil
}

// serveBigtable prints its address and serves until its input ends.
func serveBigtable(latency time.Duration) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	server := grpc.NewServer(grpc.NumStreamWorkers(8))
	bigtablepb.RegisterBigtableServer(server, discarding{latency: latency})
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		server.Stop()
	}()
	return server.Serve(listener)
}

// target is a server in a process of its own, and the ways to it.
type target struct {
	client *bigtable.Client
	table  *bigtable.Table
	ours   *sink.Bigtable
	close  func()
}

var instance = sink.Instance{Project: "p", Instance: "i", AppProfile: "one"}

// startServer starts this program as a server in a process of its own, and waits for its address.
func startServer(arguments ...string) (address string, end func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	server := exec.Command(self, arguments...)
	server.Stderr = os.Stderr
	input, err := server.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	output, err := server.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err = server.Start(); err != nil {
		return "", nil, err
	}
	address, err = bufio.NewReader(output).ReadString('\n')
	return strings.TrimSpace(address), func() {
		_ = input.Close()
		_ = server.Wait()
	}, err
}

func startTarget(ctx context.Context, latency time.Duration) (t *target, err error) {
	address, end, err := startServer("-serve", "-latency", latency.String())
	if err != nil {
		return nil, err
	}
	t = &target{close: end}
	dial := func() option.ClientOption {
		conn, fail := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		err = errors.Join(err, fail)
		return option.WithGRPCConn(conn)
	}
	if t.client, err = bigtable.NewClientWithConfig(ctx, instance.Project, instance.Instance,
		bigtable.ClientConfig{AppProfile: instance.AppProfile, DisableSession: true, MetricsProvider: bigtable.NoopMetricsProvider{}}, dial()); err != nil {
		return nil, err
	}
	t.table = t.client.Open("orders")
	if t.ours, err = sink.Connect(ctx, instance, dial()); err != nil {
		return nil, err
	}
	return t, err
}

// mutation is a request as Bigtable's own client takes it.
func mutation(r *sink.Request) *bigtable.Mutation {
	change := bigtable.NewMutation()
	for i := range r.Ops {
		op := &r.Ops[i]
		switch op.Kind {
		case sink.DeleteFamily:
			change.DeleteCellsInFamily(op.Family)
		case sink.DeleteColumn:
			change.DeleteCellsInColumn(op.Family, op.Qualifier)
		case sink.SetCell:
			change.Set(op.Family, op.Qualifier, bigtable.Timestamp(op.Timestamp), op.Value)
		case sink.AddToCell:
			change.AddIntToCell(op.Family, op.Qualifier, bigtable.Timestamp(op.Timestamp), int64(binary.BigEndian.Uint64(op.Value)))
		default:
			panic("an operation that no page gives")
		}
	}
	var columns []bigtable.Filter
	for _, family := range r.Refuse.Families {
		columns = append(columns, bigtable.ColumnRangeFilter(family, r.Refuse.Qualifier, r.Refuse.Qualifier+"\x00"))
	}
	condition := bigtable.ChainFilters(bigtable.InterleaveFilters(columns...), bigtable.ValueRangeFilter([]byte(r.Refuse.AtLeast), nil))
	return bigtable.NewCondMutation(condition, nil, change)
}

func (t *target) apply(ctx context.Context, row string, m *bigtable.Mutation) error {
	var refused bool
	return t.table.Apply(ctx, row, m, bigtable.GetCondMutationResult(&refused))
}

// inFlight does n pieces of work, so many at once.
func inFlight(width, n int, do func(i int) error) (int, error) {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var group sync.WaitGroup
	for range width {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return n, nil
}
