// Stores serves two independent object stores in memory: fake-gcs-server, which answers like Cloud
// Storage, and rclone's gofakes3, which answers like S3 and checks signatures. It prints their
// addresses in one line, S3's first, and runs until its input ends.
//
// It is a separate module, because neither the product nor its other tests need these servers.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/fsouza/fake-gcs-server/fakestorage"
	"github.com/rclone/gofakes3"
	"github.com/rclone/gofakes3/s3mem"
)

// The credentials that S3 knows.
const (
	accessKey = "conformance"
	secretKey = "conformance-secret"
)

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s3 := gofakes3.New(s3mem.New(), gofakes3.WithV4Auth(map[string]string{accessKey: secretKey}))
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: s3.Server()}
	go func() { _ = server.Serve(listener) }() // until the process ends
	gcs, err := fakestorage.NewServerWithOptions(fakestorage.Options{Scheme: "http", Host: "127.0.0.1"})
	if err != nil {
		return err
	}
	defer gcs.Stop()
	if _, err := fmt.Fprintln(out, listener.Addr(), strings.TrimPrefix(gcs.URL(), "http://")); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}
