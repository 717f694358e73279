# Sourced by test/gate and test/prove: steps that say how long they took, on two lanes.

# step COMMAND… runs a step and prints its seconds.
step() {
	printf '\n== %s\n' "$*"
	local began=$SECONDS
	"$@"
	local took=$((SECONDS - began))
	printf '== %s: passed in %d s\n' "$*" "$took"
	printf '%6d s  %s\n' "$took" "$*" >>"$steps"
}

# beside FUNCTION runs what waits for leases, pauses and other processes on a lane of its own, beside
# what computes and gives way to it. What it prints comes with `together`.
beside() {
	set -m # a process group of its own, which ends with this one
	"$1" >"$printed" 2>&1 &
	waits=$!
	set +m
	printf '\n== beside what follows: %s\n' "$1"
}

# together waits for the lane of `beside`, and fails as it did.
together() {
	local outcome=0
	wait "$waits" || outcome=$?
	waits=
	cat "$printed"
	return "$outcome"
}

# summary lists the steps and what they took.
summary() {
	printf '\nsteps, in the order in which they ended:\n'
	cat "$steps"
	printf '%6d s in all\n' "$SECONDS"
}

ended() {
	if [ -n "${waits:-}" ]; then
		kill -- "-$waits" 2>/dev/null || true
		cat "$printed"
	fi
	rm -f "$printed" "$steps"
}
printed=$(mktemp) steps=$(mktemp)
trap ended EXIT

# Fresh seeds and fresh cases for each state of the sources, and the same ones for the same state: they follow from
# what git calls the tree.
tree=$(git rev-parse 'HEAD^{tree}' 2>/dev/null) || tree=1d6e0f200
first=$((16#${tree:0:9}))
export RAPID_SEED=$((first + 1)) # of the property tests; 0 would be any
