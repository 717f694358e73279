// Command replicator is the command line: flags, help, exit codes. It reads flags and
// configuration, builds the clients of the services, and passes them to the packages that do the
// work. Each command is in one file. Data goes to stdout; progress, logs and errors go to stderr.
// Only internal/diag defines the meaning of exit codes.
package main

import "os"

func main() {
	os.Exit(execute(os.Args[1:], process()))
}
