// Package parked runs the commands for parked items. No command writes an old image to the target.
package parked
