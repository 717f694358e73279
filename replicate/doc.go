// Package replicate runs replicator inside another program. It copies DynamoDB tables to Cloud
// Bigtable and applies every later change.
//
// New checks a configuration. Run copies and follows until its context ends. Status reads the
// ledger, and Wait reads it until a state is reached. The program `replicator` works on the same
// ledger, so its commands (verify, backfill, cutover and others) can be used beside a program that
// embeds this package.
//
// The package changes no global state: it handles no signals, sets no memory limit, does not exit,
// and writes only to the logger that it is given. Several replicators can run in one process. A
// program may want two settings of its own that the command `run` makes: a memory limit
// (debug.SetMemoryLimit) below its container's, and the default log (slog.SetDefault), to which
// gRPC and other libraries write.
package replicate
