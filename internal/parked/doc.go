// Package parked runs the commands for parked items. It never replays an old image.
package parked
