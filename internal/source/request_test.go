package source

import "testing"

// The prefix of a requested export is the operator's, without slashes at its end, because the
// service adds one.
func TestDestination(t *testing.T) {
	for address, want := range map[string]string{
		"s3://b": "s3://b", "s3://b/": "s3://b", "s3://b//": "s3://b", "s3://b/p/": "s3://b/p",
		"s3://b/p//q": "s3://b/p//q", "s3://b//p": "s3://b//p", "s3:///p": "", "gs://b/p": "",
	} {
		if got, err := Destination(address); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", address, got, err, want)
		}
	}
}
