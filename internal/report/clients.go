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

// AWS is the logger of the AWS SDK's clients. Messages of the clients become records of the default
// log. Clients must not be set to log requests or answers, because these contain item data.
var AWS logging.Logger = logging.LoggerFunc(func(c logging.Classification, format string, v ...any) {
	message := fmt.Sprintf(format, v...)
	if c == logging.Warn {
		slog.Warn(message, admin.KeyClient, "aws")
	} else {
		slog.Debug(message, admin.KeyClient, "aws")
	}
})

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
