// Package inspect looks at single items: the rows that an item maps to, and how it stands on both
// sides.
package inspect
