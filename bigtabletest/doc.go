// Package bigtabletest is an embedded Bigtable with change streams. It serves tests and
// demonstrations. A Server is Google's emulator (cloud.google.com/go/bigtable/bttest), to which
// this package adds change streams as Google documents them. So Google's clients can use it
// unchanged if BIGTABLE_EMULATOR_HOST names its address.
//
// # Purpose
//
// Programs that read change streams meet their hazards only rarely, and never on demand. Partitions
// split and merge, a partition splits again before its neighbour has closed, records come late or
// twice, watermarks lag, streams break, and tokens outlive the retention period. With this package,
// one call on the Server causes each of these hazards. Time comes from an injected Clock.
//
// # Change streams
//
// A table has a change stream if its change_stream_config.retention_period is set, to 1 to 7 days,
// when it is created or updated. Each committed change of a row is one record, with all mutations
// of the row that the call applied together:
//
//   - MutateRow, MutateRows, CheckAndMutateRow and ReadModifyWriteRow. Entries and calls that fail
//     have no record, and a conditional write has the mutations of the branch that was taken.
//   - DropRowRange has one record for each row with cells. Changes of the schema have none.
//   - CollectGarbage has one record of type GARBAGE_COLLECTION. The emulator's own garbage
//     collection has none.
//   - Cells without a timestamp are recorded with the one that they got. On tables with a change
//     stream it comes from the Clock, except in ReadModifyWriteRow.
//   - The deletion of a row is recorded as the deletion of each family in which the row has cells.
//     The deletion of an absent row has no record.
//
// Records larger than Options.ChunkSize are sent as several messages, and larger values as chunks.
//
// The initial partitions of a table are divided by the split keys with which it was created. When a
// partition splits or merges, its stream ends at once with a CloseStream, even if records are left.
// The streams of the new partitions continue there. The CloseStream has one token for each part of
// the old partition that belongs to another new partition, and the new partitions in the same
// order. Its status is OUT_OF_RANGE, which Google's clients require. At the end time the status is
// OK, and there are no tokens. A request for a range that is not a partition, or not any longer, is
// answered by such a CloseStream.
//
// A request whose tokens do not exactly cover its partition is INVALID_ARGUMENT. A request for a
// table without a change stream is FAILED_PRECONDITION. A start time or token that is older than
// the retention period or than the change stream gets the code Options.TooOld.
//
// # Guarantees
//
// If the documentation allows several behaviours, the server chooses the one that is hardest for
// its client. After a merge, records of the half that was read further come again. A token can only
// be used for the range for which it was issued. After a split and a merge the same range is
// another partition. With the same clock readings, seed and order of requests the server gives the
// same answers. The header of an answer to ReadChangeStream is sent once the request is open.
//
// It does not imitate several clusters, app profiles or authorized views. Records are kept in
// memory even after the retention period. If one mutation of a call fails, the emulator keeps the
// mutations before it, and they have no record.
//
// # Invariants
//
//   - C1 Every committed change has a record. It is delivered at least once, by a stream of the
//     partition that holds its row key at that time, once it can be read.
//   - C2 The records of a row come in the order of their commits, except for repetitions.
//   - C3 The tokens of a CloseStream cover exactly the partition that closed. Each lies in the new
//     partition beside it.
//   - C4 A request that resumes at a token gets every record after it, and maybe some before it.
//   - C5 A watermark is never later than the commit of a record that is not delivered.
//
// # Files
//
// server.go starts the emulator, and intercept.go receives all calls. admin.go implements tables,
// and write.go and mutation.go make records of writes. log.go keeps the records of a table,
// partition.go its partitions, and token.go encodes positions. reader.go decides what a stream
// sends, message.go builds the messages, and streamops.go implements the two methods of change
// streams. fault.go and control.go are for tests.
package bigtabletest
