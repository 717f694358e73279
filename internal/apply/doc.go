// Package apply writes the changes that it receives from a Pub/Sub topic.
package apply
