// Package apply writes the changes that a Pub/Sub topic brings.
package apply
