// Package parked runs the commands for parked items. Nothing here replays an old image.
package parked
