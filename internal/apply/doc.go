// Package apply writes what a topic brings: it pulls messages, writes them under the guard, and
// acknowledges them when they are durable.
package apply
