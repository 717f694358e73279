package embedded

import (
	"context"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Open opens the target with the official client.
func Open(ctx context.Context, address string) (*bigtable.Client, func(), error) {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage)))
	if err != nil {
		return nil, nil, err
	}
	config := bigtable.ClientConfig{DisableSession: true, MetricsProvider: bigtable.NoopMetricsProvider{}}
	client, err := bigtable.NewClientWithConfig(ctx, "bench", "bench", config, option.WithGRPCConn(conn))
	return client, func() { _ = conn.Close() }, err
}

// OpenAdmin opens the target's administration.
func OpenAdmin(ctx context.Context, address string) (*bigtable.AdminClient, error) {
	return bigtable.NewAdminClient(ctx, "bench", "bench", option.WithEndpoint(address), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
}
