// Package inspect runs preview and explain, which look at single items.
package inspect
