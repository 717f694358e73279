// Package architecture tests documents and imports against the code. It contains no code.
package architecture
