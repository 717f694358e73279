// Package source knows where the rows of a load come from. The list `kinds` has all kinds of
// sources. Each kind has its own file. The file defines the form of the kind's addresses, and how
// their content is opened and read. It also checks that the content belongs to a table and is
// complete.
//
// Other packages use the properties of opened Images: their times, size and parts. Of an address,
// they use only whether it stands for a scan (Scans), and where its folder is (Folder, InS3,
// InCloudStorage).
//
// A new kind needs a file in this package that defines a kind, and an entry in kinds. Its function
// open must return a set.
package source
