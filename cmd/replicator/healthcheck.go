package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// healthcheckTime bounds the request. Container engines count a longer request as a failure.
const healthcheckTime = 5 * time.Second

func newHealthcheck(p *program) *cobra.Command {
	address := ""
	c := &cobra.Command{
		Use:     "healthcheck live|ready [flags]",
		Short:   "Check whether the process on this machine is live or ready",
		GroupID: groupOther,
		Long: `Check whether the process on this machine is live (/healthz) or ready (/readyz).

Container images use it as their health check. The exit status is 0 for yes, and 1 for no or no
answer within 5 seconds.`,
		Example: `  replicator healthcheck live
  replicator healthcheck ready --address 127.0.0.1:9000`,
		Args: atMost(1), ValidArgs: []string{"live", "ready"},
		RunE: func(c *cobra.Command, args []string) error {
			path, err := healthPath(args)
			if err != nil {
				return err
			}
			if listen, ok := p.Env("REPLICATOR_HTTP_LISTEN"); ok && address == "" {
				address = listen
			}
			return p.healthcheck(c.Context(), address, path)
		},
	}
	c.Flags().StringVar(&address, "address", "", "`ADDRESS` that the process listens on (default $REPLICATOR_HTTP_LISTEN, 127.0.0.1:8080)")
	return c
}

// healthPath returns the path of the health check. At most one argument may name it.
func healthPath(args []string) (string, error) {
	const fix = "write replicator healthcheck live, or replicator healthcheck ready"
	if len(args) == 0 {
		return "", diag.BadUsage("replicator healthcheck needs one argument: live or ready", fix)
	}
	switch args[0] {
	case "live":
		return "/healthz", nil
	case "ready":
		return "/readyz", nil
	}
	return "", diag.BadUsage(fmt.Sprintf("%q is not a health check", args[0]), fix)
}

// healthcheck requests a path, and prints the process's answer.
func (p *program) healthcheck(ctx context.Context, address, path string) error {
	if address == "" {
		address = "127.0.0.1:8080"
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return diag.BadUsage("the address "+address+" has no port", "give host and port, such as 127.0.0.1:8080")
	}
	if host == "" { // the process listens on all addresses of the machine
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, healthcheckTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+path, nil)
	if err != nil {
		return diag.BadUsage("the address "+address+" is not valid", "give host and port, such as 127.0.0.1:8080")
	}
	no := &diag.Error{Code: diag.NotHealthy, What: "the health check " + request.URL.String() + " failed"}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		no.Cause, no.Err = "nothing answers at "+request.URL.Host, err
		return no
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	if response.StatusCode != http.StatusOK || err != nil {
		no.What = fmt.Sprintf("the process at %s answers %s with status %d", request.URL.Host, path, response.StatusCode)
		no.Cause, no.Err = strings.TrimSpace(string(text)), err
		return no
	}
	_, err = fmt.Fprintf(p.Stdout, "%s", text)
	return err
}
