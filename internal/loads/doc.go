// Package loads is the copy of existing items as an operator sees and steers it, from any machine
// and through the ledger alone: read takes what the ledger holds, judge makes a Document of it,
// render writes that for people. Start, Pause, Resume, Redo and Throttle change the table's record,
// which every worker reads within seconds.
package loads
