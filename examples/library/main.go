// Command library shows the package replicate: it copies one table and follows its changes.
package main

import (
	"context"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/dynamodb-bigtable/replicator/replicate"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := replicate.New(replicate.Config{
		Source: replicate.Source{Region: "eu-west-1"},
		Target: replicate.Target{Project: "my-project", Instance: "my-instance"},
		Tables: []replicate.Table{{From: "Orders", To: "orders"}},
	}, replicate.WithLogger(slog.Default()))
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		status, err := r.Wait(ctx, replicate.GoalInSync)
		if err != nil {
			log.Print(err)
			return
		}
		log.Printf("%s is %s", status.Tables[0].Source, status.State)
	}()
	if err := r.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
