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

// AWS returns the logger of the AWS SDK's clients. Messages of the clients become records of a log;
// if it is nil, of the default log. Clients must not be set to log requests or answers, because
// these contain item data.
func AWS(log *slog.Logger) logging.Logger {
	return logging.LoggerFunc(func(c logging.Classification, format string, v ...any) {
		to, message := log, fmt.Sprintf(format, v...)
		if to == nil {
			to = slog.Default()
		}
		if c == logging.Warn {
			to.Warn(message, admin.KeyClient, "aws")
		} else {
			to.Debug(message, admin.KeyClient, "aws")
		}
	})
}

// Clients makes log the default log of the process, so that it includes messages of the vendors'
// clients and libraries. It must be called before the clients are created.
func Clients(log *slog.Logger) {
	slog.SetDefault(log) // this also redirects the standard library's log, which Google's libraries use
	errors := Lines(log.With(admin.KeyClient, "grpc"))
	info, warning := io.Discard, io.Discard
	switch strings.ToLower(os.Getenv("GRPC_GO_LOG_SEVERITY_LEVEL")) { // gRPC's own variable; by default it logs only errors
	case "info":
		info, warning = errors, errors
	case "warning":
		warning = errors
	}
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(info, warning, errors))
}
