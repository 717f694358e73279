package report

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/aws/smithy-go/logging"
	"google.golang.org/grpc/grpclog"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
)

// AWS is the logger of the AWS SDK's clients: what they say becomes records of the default log. No mode of the clients is set by which
// they would log requests or answers, which hold item data.
var AWS logging.Logger = logging.LoggerFunc(func(c logging.Classification, format string, v ...any) {
	message := fmt.Sprintf(format, v...)
	if c == logging.Warn {
		slog.Warn(message, admin.KeyClient, "aws")
	} else {
		slog.Debug(message, admin.KeyClient, "aws")
	}
})

// Clients makes log the default of the process, so that what the vendors' clients and their libraries say is part of it. It is called
// before they are made.
func Clients(log *slog.Logger) {
	slog.SetDefault(log) // the standard library's log with it, which Google's libraries use
	errors := Lines(log.With(admin.KeyClient, "grpc"))
	info, warning := io.Discard, io.Discard
	switch strings.ToLower(os.Getenv("GRPC_GO_LOG_SEVERITY_LEVEL")) { // gRPC's own variable; errors are what it tells without it
	case "info":
		info, warning = errors, errors
	case "warning":
		warning = errors
	}
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(info, warning, errors))
}
