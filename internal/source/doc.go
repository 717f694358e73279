// Package source knows where the rows of a load come from. One table lists the kinds of sources; each
// kind has a file of its own, which says how its addresses are written, what they hold, whether that
// fits a table and is whole, and how its parts are read.
//
// All others ask this package, and decide by what the opened Images say of themselves: the times that
// they show, their size, their parts. Nobody else asks which kind a source is.
//
// A new kind is a file here that makes a kind, whose open gives a set, and its line in kinds.
package source
