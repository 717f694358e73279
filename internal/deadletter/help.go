package deadletter

// Texts of the commands' help.
const (
	Help = `List or drop the messages in the dead-letter topic, through the subscription relay.dead_letter.
While it has a message, no table is in sync.

  missing   the relay published the change, but it may not be applied
  applied   the change was applied later, or a load covers it
  refused   the ledger does not know it, so another program published it
  foreign   it does not belong to this migration`

	ListHelp = `List the messages in the dead-letter topic with their states and reasons. No item data is shown. The
messages stay in the topic.

One call may not show all messages, because Pub/Sub delivers them in parts.`

	DropHelp = `Remove messages from the dead-letter topic permanently. Their changes are not applied.

If a message is in state missing, its change may be missing from the row. Repair the row with
replicator verify --repair, and load the table. Until then the table is not in sync. The output has
both commands. Messages in the other states can be dropped without loss.

Each drop is logged without item data.

REF is a hash of the message's data, as "list" prints it. The first digits are enough if they
are unique, at least 8.`
)
