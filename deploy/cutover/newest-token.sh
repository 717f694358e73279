#!/bin/sh
# Runs a cutover hook unless a newer call was seen. So a call that was delayed, or that a paused
# process sends late, does nothing.
#
#   newest-token.sh [--quiet] FILE COMMAND [ARGUMENT…]
#
# With --quiet, the probe reports that COMMAND may print `quiet` as its last line. Give it for freeze_writes alone,
# and only if COMMAND knows whether the application is quiet: docs/how-to/dual-writes.md.
#
# FILE.GROUP stores the highest token seen for each group of tables (CUTOVER_GROUP), and FILE that of a
# replicator without groups. An example for FILE is /var/lib/replicator/cutover.token, which the systemd unit
# lets hooks write. All hooks of one pipeline must name the same FILE. If one machine calls the hooks, use a
# local file. If several do, use a shared file system whose locks work between machines. Use a new FILE for a
# new ledger, which counts from 1 again.
#
# In a configuration:
#
#   freeze_writes: ./newest-token.sh /var/lib/replicator/cutover.token ./freeze.sh
#
# A probe does not run COMMAND. Otherwise the exit status is that of COMMAND:
#
#   0              done
#   77             refused: neither this call nor an earlier one did anything
#   1 to 125       freeze_writes: refused, too. switch: unknown
#   75             the token is late, or this script failed: unknown
#   126 and above  unknown
#
# This script itself never ends with 77.
#
# COMMAND runs under a lock of its group. While one call's command runs, the group's next call waits, until
# its own deadline. The script needs flock(1) of util-linux or BusyBox.
set -u

late=75
say() { echo "newest-token.sh: $*" >&2; }

quiet=
if [ "${1-}" = --quiet ]; then
	quiet=' quiet'
	shift
fi
if [ $# -lt 2 ]; then
	say "usage: newest-token.sh [--quiet] FILE COMMAND [ARGUMENT...]"
	exit $late
fi
file=$1
shift

command -v flock >/dev/null 2>&1 || { say "flock is not installed"; exit $late; }
case $1 in
*/*) [ -f "$1" ] && [ -x "$1" ] ;;
*) command -v "$1" >/dev/null 2>&1 ;;
esac || { say "cannot execute $1"; exit $late; }
# Tokens rise separately for each group. A token in FILE, which a wrapper without groups wrote, is lower than
# all later tokens of every group.
floor=$file
if [ -n "${CUTOVER_GROUP-}" ]; then
	name=$(printf %s "$CUTOVER_GROUP" | tr -c 'A-Za-z0-9_-' _ | cut -c1-80)
	file=$file.$name-$(printf %s "$CUTOVER_GROUP" | cksum | tr ' ' -)
fi
# The lock is a separate file, which is never replaced.
{ exec 9>>"$file.lock"; } 2>/dev/null || { say "cannot write $file.lock"; exit $late; }

for last; do :; done
if [ "${CUTOVER_PROBE-}" = 1 ] || [ "$last" = --probe ]; then
	[ ! -e "$file" ] || { [ -r "$file" ] && [ -w "$file" ]; } || { say "cannot read and write $file"; exit $late; }
	[ -w "$(dirname "$file")" ] || { say "cannot write the directory of $file"; exit $late; }
	echo "groups$quiet" # tokens are kept for each group
	exit 0
fi

# digits succeeds for a token of three numbers.
digits() {
	case $1 in
	*[!0-9.]* | .* | *. | *..* | *.*.*.*) return 1 ;;
	*.*.*) return 0 ;;
	esac
	return 1
}

# older succeeds if the first token is lower than the second one.
older() {
	# shellcheck disable=SC2046 # the words are numbers
	set -- $(echo "$1.$2" | tr . ' ')
	[ "$1" -eq "$4" ] || { [ "$1" -lt "$4" ]; return; }
	[ "$2" -eq "$5" ] || { [ "$2" -lt "$5" ]; return; }
	[ "$3" -lt "$6" ]
}

digits "${CUTOVER_TOKEN-}" || { say "CUTOVER_TOKEN is no token: '${CUTOVER_TOKEN-}'"; exit $late; }
flock 9 || { say "cannot lock $file.lock"; exit $late; }

for seen in "$floor" "$file"; do
	[ -s "$seen" ] || continue
	newest=$(cat "$seen") && digits "$newest" || { say "$seen holds no token"; exit $late; }
	if older "$CUTOVER_TOKEN" "$newest"; then
		say "token $CUTOVER_TOKEN is late: $newest was here already"
		exit $late
	fi
done
# The token is stored before the command acts. A crash leaves either the old or the new token.
echo "$CUTOVER_TOKEN" >"$file.new" && { sync "$file.new" 2>/dev/null || sync; } && mv -f "$file.new" "$file" || {
	say "cannot write $file"
	exit $late
}

# Only this script holds the lock: background processes of the command do not block the next call.
"$@" 9>&-
