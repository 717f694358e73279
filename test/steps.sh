# Sourced by test/gate and test/prove. Runs steps in two lanes and prints how long each took.

# step COMMAND… runs a step and prints its seconds.
step() {
	printf '\n== %s\n' "$*"
	local began=$SECONDS
	"$@"
	local took=$((SECONDS - began))
	printf '== %s: passed in %d s\n' "$*" "$took"
	printf '%6d s  %s\n' "$took" "$*" >>"$steps"
}

# beside FUNCTION runs tests that mostly wait, for leases, pauses and other processes, in a lane
# beside the CPU-bound steps. `together` prints their output.
beside() {
	set -m # a process group of its own, which is killed when this script ends
	"$1" >"$printed" 2>&1 &
	waits=$!
	set +m
	printf '\n== beside what follows: %s\n' "$1"
}

# together waits for the lane of `beside`, and returns its exit status.
together() {
	local outcome=0
	wait "$waits" || outcome=$?
	waits=
	cat "$printed"
	return "$outcome"
}

# summary lists the steps and their seconds.
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

# Each state of the sources gets its own seeds and cases. They are derived from git's hash of the
# tree, so the same state gets the same ones.
tree=$(git rev-parse 'HEAD^{tree}' 2>/dev/null) || tree=1d6e0f200
first=$((16#${tree:0:9}))
export RAPID_SEED=$((first + 1)) # for the property tests; 0 would choose a random seed
