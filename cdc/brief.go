package cdc

import (
	"errors"
	"fmt"
	"io"
	"net"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Brief shortens an error of an AWS client: it removes the SDK's text around the cause, which
// repeats the operation and the status. What remains is the service's code and text, or the cause
// of the failure. For an answer that cannot be decoded, Brief gives no cause, because the SDK's
// text may quote item data. The result wraps the original error, which has the id of the request.
func Brief(err error) error {
	status := 0
	for inner := err; ; {
		switch e := inner.(type) {
		case *smithy.OperationError:
			inner = e.Err
		case *awshttp.ResponseError:
			status, inner = e.HTTPStatusCode(), e.Err
		case *smithyhttp.ResponseError:
			status, inner = e.HTTPStatusCode(), e.Err
		case *smithyhttp.RequestSendError:
			inner = e.Err
		case *smithy.CanceledError:
			inner = e.Err
		case *smithy.DeserializationError:
			if !brokenOff(e.Err) {
				return brief{undecoded(status), err}
			}
			inner = e.Err
		case smithy.APIError:
			text := e.ErrorCode()
			if text == noCode {
				return brief{undecoded(status), err}
			}
			if e.ErrorMessage() != "" {
				text += ": " + e.ErrorMessage()
			}
			return brief{text, err}
		default:
			if inner == err || inner == nil {
				return err
			}
			return brief{inner.Error(), err}
		}
	}
}

// noCode is the SDK's code for an answer without a code.
const noCode = "UnknownError"

// brokenOff reports whether an answer was cut off.
func brokenOff(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, ErrChecksum)
}

func undecoded(status int) string {
	if status == 0 || status/100 == 2 {
		return "the answer cannot be decoded"
	}
	return fmt.Sprintf("an answer with HTTP status %d", status)
}

// brief is an error of a client with a shorter text.
type brief struct {
	text string
	err  error
}

func (b brief) Error() string { return b.text }

func (b brief) Unwrap() error { return b.err }
