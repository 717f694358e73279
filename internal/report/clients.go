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

// AWS is the logger of the AWS SDK's clients: their messages become records of the default log. No
// mode is set in which clients log requests or answers, because these hold item data.
var AWS logging.Logger = logging.LoggerFunc(func(c logging.Classification, format string, v ...any) {
	message := fmt.Sprintf(format, v...)
	if c == logging.Warn {
		slog.Warn(message, admin.KeyClient, "aws")
	} else {
		slog.Debug(message, admin.KeyClient, "aws")
	}
})

// Clients makes log the default of the process, so that it includes messages of the vendors'
// clients and their libraries. It must be called before they are created.
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
