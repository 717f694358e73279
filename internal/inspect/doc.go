// Package inspect runs preview and explain, which examine single items.
package inspect
