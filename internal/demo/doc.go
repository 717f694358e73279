// Package demo runs a migration without a cloud. At the end it compares source and
// target cell by cell.
//
// Nothing in it is simulated. The workers start as under an operator, with a configuration file and
// the vendors' own environment variables. They are observed through their HTTP endpoints. The
// verdict comes from reads of both stores.
package demo
