// Package vulnerabilities pins govulncheck and tests the script that runs it. It is a module of its own, because
// govulncheck needs newer modules than the product, which do not belong into what is shipped. It contains no code.
package vulnerabilities
