package dynamodbtest

import (
	"net/http"
	"strconv"
	"time"
)

// signatureTime is the form of times in signatures of version 4.
const signatureTime = "20060102T150405Z"

// checkSignature rejects a request whose signature is older than the window, or that was signed
// later than the window from now. It compares full seconds, as in the X-Amz-Date header. It does
// not verify the signature itself.
func checkSignature(h http.Header, now time.Time, window time.Duration) error {
	if window <= 0 {
		return nil
	}
	date := h.Get("X-Amz-Date")
	signed, err := time.Parse(signatureTime, date)
	if err != nil {
		return newError("IncompleteSignatureException", "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header.")
	}
	now = now.UTC().Truncate(time.Second)
	stamp := now.Format(signatureTime)
	minutes := strconv.FormatFloat(window.Minutes(), 'g', -1, 64) + " min.)"
	if first := now.Add(-window); signed.Before(first) {
		return newError("InvalidSignatureException", "Signature expired: "+date+" is now earlier than "+first.Format(signatureTime)+" ("+stamp+" - "+minutes)
	}
	if last := now.Add(window); signed.After(last) {
		return newError("InvalidSignatureException", "Signature not yet current: "+date+" is still later than "+last.Format(signatureTime)+" ("+stamp+" + "+minutes)
	}
	return nil
}
