#!/bin/sh
# Runs a hook of a cutover only if no newer call has come this way before: a call that was delayed, or
# that a driver sends which slept, does nothing.
#
#   newest-token.sh FILE COMMAND [ARGUMENT…]
#
# FILE keeps the highest token that was seen, such as /var/lib/replicator/cutover.token, which the systemd
# unit lets hooks write. All hooks of one pipeline name the same FILE, and each machine that calls them must
# see it: a local file if one machine does, a file system that they share and whose locks hold between them
# if several do. Use a new FILE for a new ledger, which counts from 1 again.
#
# In a configuration:
#
#   freeze_writes: ./newest-token.sh /var/lib/replicator/cutover.token ./freeze.sh
#
# COMMAND is not run by a probe. Otherwise its exit status is this script's: 0 done; 1 to 125 but 75 nothing was
# done, by this call or one before it; all else not known. 75 is a late token, too: nothing was done by this
# call, and a newer one decides. COMMAND runs under a lock: while one call's command lives, the next one waits
# for it, until its own deadline. Needs flock(1), of util-linux or BusyBox.
set -u

late=75
say() { echo "newest-token.sh: $*" >&2; }

if [ $# -lt 2 ]; then
	say "usage: newest-token.sh FILE COMMAND [ARGUMENT...]"
	exit $late
fi
file=$1
shift

command -v flock >/dev/null 2>&1 || { say "flock is not installed"; exit $late; }
case $1 in
*/*) [ -f "$1" ] && [ -x "$1" ] ;;
*) command -v "$1" >/dev/null 2>&1 ;;
esac || { say "cannot execute $1"; exit $late; }
# The lock has a file of its own, which is never replaced.
{ exec 9>>"$file.lock"; } 2>/dev/null || { say "cannot write $file.lock"; exit $late; }

for last; do :; done
if [ "${CUTOVER_PROBE-}" = 1 ] || [ "$last" = --probe ]; then
	[ ! -e "$file" ] || { [ -r "$file" ] && [ -w "$file" ]; } || { say "cannot read and write $file"; exit $late; }
	[ -w "$(dirname "$file")" ] || { say "cannot write the directory of $file"; exit $late; }
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

newest=
if [ -s "$file" ]; then
	newest=$(cat "$file") && digits "$newest" || { say "$file holds no token"; exit $late; }
	if older "$CUTOVER_TOKEN" "$newest"; then
		say "token $CUTOVER_TOKEN is late: $newest was here already"
		exit $late
	fi
fi
# It is kept before the command acts, and a crash leaves the old one or the new one.
echo "$CUTOVER_TOKEN" >"$file.new" && { sync "$file.new" 2>/dev/null || sync; } && mv -f "$file.new" "$file" || {
	say "cannot write $file"
	exit $late
}

# The lock is this script's: what the command leaves running does not hold up the next call.
"$@" 9>&-
