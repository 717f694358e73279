// Check compares services with the suite of test/conformance, and runs the program with independent
// services.
//
// With -dynoxide and -bigtable it runs the suite against the embedded DynamoDB and against
// dynoxide, and compares the answers with the stored report. Then it reads exports of the embedded
// DynamoDB from the object stores of test/conformance/stores. Finally worker processes of the built
// program replicate a random workload from dynoxide to Google's Bigtable emulator while they are
// killed repeatedly, and both stores are compared cell by cell. Make conformance builds what this
// needs and runs it.
//
// If REPLICATOR_CONFORMANCE_ENDPOINT is set, it only runs the suite against that DynamoDB, and
// prints the differences.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"

	"github.com/dynamodb-bigtable/replicator/test/conformance"
	"github.com/dynamodb-bigtable/replicator/test/processes"
)

// options are the flags.
type options struct {
	dynoxide, crate, bigtable, stores, report string
	write                                     bool
	kills                                     int
	seed                                      uint64
}

func main() {
	if text := os.Getenv(processes.ServiceVariable); text != "" {
		exit(processes.Serve(text, os.Stdin, os.Stdout))
	}
	var o options
	flag.StringVar(&o.dynoxide, "dynoxide", "", "executable of dynoxide")
	flag.StringVar(&o.crate, "crate", "", "version of the crate that dynoxide was built from")
	flag.StringVar(&o.bigtable, "bigtable", "", "executable of Google's Bigtable emulator")
	flag.StringVar(&o.stores, "stores", "", "executable of test/conformance/stores")
	flag.StringVar(&o.report, "report", "docs/reference/conformance.md", "the report that is kept")
	flag.BoolVar(&o.write, "write", false, "write the report, rather than compare with it")
	flag.IntVar(&o.kills, "kills", 24, "how often workers are killed; 0: the suite alone")
	flag.Uint64Var(&o.seed, "seed", 1, "what the application writes, and who is killed when")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	exit(run(ctx, o))
}

// exit ends the process.
func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(ctx context.Context, o options) error {
	named, err := conformance.FromEnvironment(ctx)
	if err != nil {
		return err
	}
	if named != nil {
		return show(ctx, named)
	}
	if o.kills < 0 {
		return fmt.Errorf("-kills is %d: it is how often workers are killed, 0 or more", o.kills)
	}
	if o.dynoxide == "" || o.bigtable == "" || o.stores == "" {
		return errors.New("-dynoxide, -bigtable and -stores are needed: make conformance gives them")
	}
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	// The directory is kept after a failure, because of the logs.
	dir, err := os.MkdirTemp("", "replicator-conformance-")
	if err != nil {
		return err
	}
	if err := suite(ctx, o, executable, dir); err != nil {
		return err
	}
	if err := readStores(ctx, o, dir); err != nil {
		return err
	}
	if o.kills == 0 {
		fmt.Println("no kills are asked for: the program itself is not run")
		return os.RemoveAll(dir)
	}
	if err := crash(ctx, o, executable, dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// show runs the suite against one endpoint and prints the differences.
func show(ctx context.Context, e *conformance.Endpoint) error {
	results, err := conformance.Run(ctx, e)
	if err != nil {
		return err
	}
	for _, r := range results {
		for _, d := range r.Differences {
			fmt.Printf("%s (%s): %s\n", r.Name, r.Source, d)
		}
	}
	if differ := count(e.Name, results); differ > 0 {
		return fmt.Errorf("%d cases differ", differ)
	}
	return nil
}

// count prints how many cases differ.
func count(service string, results []conformance.Result) int {
	differ := conformance.Differing(results)
	fmt.Printf("%s: %d cases, %d differ\n", service, len(results), differ)
	return differ
}

// suite runs the suite against both services, and compares their answers with the verdicts and the
// report.
func suite(ctx context.Context, o options, executable, dir string) error {
	version, err := exec.CommandContext(ctx, o.dynoxide, "--version").Output()
	if err != nil {
		return fmt.Errorf("%s: %w", o.dynoxide, err)
	}
	var outcomes []conformance.Outcome
	var problems []string
	for _, s := range []struct {
		name, version string
		command       []string
	}{
		{conformance.Embedded, "this repository's dynamodbtest", nil},
		{conformance.OtherProject, fmt.Sprintf("%s, crate dynoxide-rs %s", strings.TrimSpace(string(version)), o.crate), processes.Dynoxide(o.dynoxide)},
	} {
		address, stop, err := processes.ServeDynamo(executable, dir, s.name, s.command)
		if err != nil {
			return err
		}
		results, err := conformance.Run(ctx, conformance.Local(s.name, "http://"+address))
		stop()
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		unjudged, outdated := conformance.Judge(s.name, results)
		problems = append(append(problems, unjudged...), outdated...)
		outcomes = append(outcomes, conformance.Outcome{Service: s.name, Version: s.version, Results: results})
		count(s.name, results)
	}
	if len(problems) > 0 {
		return errors.New(strings.Join(problems, "\n"))
	}
	return keep(o, conformance.Report(outcomes))
}

// keep writes the report, or compares it with the stored one.
func keep(o options, report string) error {
	if o.write {
		return os.WriteFile(o.report, []byte(report), 0o644)
	}
	kept, err := os.ReadFile(o.report)
	if err != nil {
		return err
	}
	if string(kept) == report {
		return nil
	}
	before, after := strings.Split(string(kept), "\n"), strings.Split(report, "\n")
	for i := range after {
		if i >= len(before) || before[i] != after[i] {
			return fmt.Errorf("%s is not what the services answer now; make conformance WRITE=1 writes it again. First difference in line %d:\n%s", o.report, i+1, after[i])
		}
	}
	return fmt.Errorf("%s has more lines than what the services answer now; make conformance WRITE=1 writes it again", o.report)
}

// crash kills workers of the built program between dynoxide and Google's emulator.
func crash(ctx context.Context, o options, executable, dir string) error {
	program, err := processes.Build(ctx, dir)
	if err != nil {
		return err
	}
	return processes.Crash(ctx, processes.Options{
		Seed: o.seed, Program: program, Services: executable, Dir: dir, Log: os.Stdout,
		Dynamo: processes.Dynoxide(o.dynoxide), Bigtable: processes.BigtableEmulator(o.bigtable),
	}, o.kills)
}
