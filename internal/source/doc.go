// Package source knows where the rows of a load come from. The table kinds lists the kinds of
// sources. Each kind has its own file. The file defines the form of its addresses, their content,
// whether the content fits a table and is whole, and how its parts are read.
//
// Other packages decide by the properties of the opened Images: their times, size and parts. About
// an address they ask only whether it stands for a scan (Scans), and where its folder is (Folder,
// InS3, InCloudStorage).
//
// A new kind needs a file here that defines a kind, whose open returns a set, and an entry in kinds.
package source
