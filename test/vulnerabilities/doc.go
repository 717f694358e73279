// Package vulnerabilities pins govulncheck and tests the script that runs it. It is a separate
// module, because govulncheck needs newer modules than the product. It contains no code.
package vulnerabilities
