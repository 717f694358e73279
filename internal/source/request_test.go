package source

import "testing"

// The prefix of an export that is to be made is the operator's, but for slashes at its end: the
// service writes one.
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
