GO ?= go
FUZZTIME ?= 20000x
UNGUIDED ?=

ROUNDS ?= 10
SEED ?= 1
SEEDS ?= 2000
FROM ?= 0
KILLS ?= 24
DURATION ?= 1h
OUT ?=
ITEMS ?= 1000000
INTERRUPTIONS ?= 20
ONLY ?=
FILES ?=
SHARE ?=
PACKAGES ?=

# The directory of tools that are not Go modules of this repository. Each is built once per machine.
TOOLS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/replicator/tools
# dynoxide: an independent DynamoDB with Streams, the crate dynoxide-rs.
DYNOXIDE_VERSION ?= 3.2.0
DYNOXIDE = $(TOOLS)/dynoxide-$(DYNOXIDE_VERSION)/bin/dynoxide
BIGTABLE_EMULATOR = $(TOOLS)/bigtable-emulator
# Independent object stores, pinned by test/conformance/stores/go.mod.
STORES = $(TOOLS)/stores
# axe-core: accessibility rules for pages, from its npm package.
AXE_VERSION = 4.14.1
AXE_SHA256 = 29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c
AXE = $(TOOLS)/axe-core-$(AXE_VERSION).min.js
# Prometheus' own tool, pinned by deploy/monitoring/go.mod.
PROMTOOL = $(TOOLS)/promtool
# goreleaser, pinned by deploy/release/go.mod, and govulncheck, by test/vulnerabilities/go.mod.
GORELEASER = $(TOOLS)/goreleaser
GOVULNCHECK = $(TOOLS)/govulncheck
VULNERABILITIES ?= https://vuln.go.dev

# All builds except the race detector and releases use the same settings, so that no package is
# built twice, which takes minutes. If you call go by hand, set the same: export CGO_ENABLED=0.
export CGO_ENABLED = 0

comma = ,

.PHONY: help build test prove vet lint long-scripts long-sim race fuzz bench bench-smoke bench-load demo mutants mutation-score sim soak soak-kept soak-processes soak-migrations soak-relay tools conformance browser soak-run promtool chart deploy-check beam manual release-check vuln

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 24

# The last tag and the commit, for `replicator version`. Go records the commit by itself, but not
# for `go run` and not in a linked working copy.
VERSION ?= $(shell git describe --tags --dirty=+changes 2>/dev/null)
REVISION ?= $(shell git rev-parse --verify --quiet HEAD 2>/dev/null)$(if $(shell git status --porcelain 2>/dev/null),+changes)
DATE ?= $(shell TZ=UTC git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ 2>/dev/null)
STAMP = -X main.version=$(VERSION) -X main.revision=$(REVISION) -X main.date=$(DATE)

build: ## the binary, in bin/
	$(GO) build -ldflags "$(STAMP)" -o bin/replicator ./cmd/replicator

# Tests that wait for processes or read the whole tree. make test skips them; make prove and the
# turns of test/gate run them.
LONG = ^(TestWaitingScripts|TestAFrozenProcessIsSeen|TestParkedItemsAreCountedAlikeByTwoWorkers|TestRequests|TestExportedNamesHaveUsers|TestSettlingCostsTwiceAndHoldsNothingUp|TestRounds|TestRelay|TestDualWrites|TestCutover|TestRollback|TestARehearsalHindersNoDualWrites)$$

# A limit for a test that hangs. No test takes that long, even on a busy machine.
LIMIT = -timeout 60m

test: vet ## the inner loop: gofmt, go vet, all tests except the long ones, one seed of each scenario; needs no C compiler
	$(GO) test -short -vet=off $(LIMIT) -skip '$(LONG)' ./...

prove: ## the slower tests: race detector, fuzzing, seeds, planted bugs, real processes, conformance, staticcheck; most of an hour
	./test/prove

vet: ## gofmt and go vet
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt would change: $$unformatted"; exit 1; }
	$(GO) vet ./...

lint: ## staticcheck, and the tests that read the whole tree
	$(GO) tool staticcheck ./...
	$(GO) test -vet=off $(LIMIT) -run '$(LONG)' ./test/architecture ./internal/worker

long-scripts: ## the scripts and tests of the program that wait for leases, settles and demos
	$(GO) test -vet=off $(LIMIT) -run '$(LONG)' ./cmd/replicator ./dualwrite

long-sim: ## all seeds of test/sim; make test plays one seed of each scenario
	$(GO) test -vet=off $(LIMIT) ./test/sim

# The packages that use goroutines. test/sim runs one task at a time, and other packages use one
# goroutine.
RACED ?= ./backfill/... ./bigtabletest/... ./checkpoint/... ./cdc/... ./dualwrite/... ./dynamodbtest/... ./relay/... ./sink/... ./internal/admin ./internal/demo ./internal/hook ./internal/memory ./internal/notify ./internal/telemetry ./internal/engine ./internal/stream ./internal/follow ./internal/job ./internal/load ./internal/fallback ./internal/reverse ./internal/freeze ./internal/tablepolicy ./internal/verify ./internal/apply ./internal/pipeline ./internal/preflight ./internal/status ./internal/switchover ./internal/task ./internal/worker

# A process built with the race detector sleeps a second before it exits. Tests start some hundreds
# of processes, so this shortens the sleep.
race: ## the tests of RACED packages under the race detector; needs a C compiler
	CGO_ENABLED=1 GORACE="atexit_sleep_ms=10 $$GORACE" $(GO) test -race -vet=off $(LIMIT) -skip '$(LONG)' $(RACED)

# UNGUIDED packages (or all) are fuzzed without the instrumentation that guides Go's fuzzer to new
# code. Building it takes minutes for a package that imports Bigtable's client.
fuzz: ## every fuzz target for FUZZTIME (default 20000x, a number of inputs); those of UNGUIDED packages without coverage guidance
	GO="$(GO)" UNGUIDED="$(UNGUIDED)" ./test/fuzz $(FUZZTIME)

# A separate module, because promtool brings two hundred modules that the product does not need. It
# is built without service discovery, so the first build takes a minute or two.
promtool: ## the alert rules, their unit tests, the metrics and the dashboard, checked with Prometheus' own tool and parser
	$(GO) -C deploy/monitoring build -tags remove_all_sd -o $(PROMTOOL) github.com/prometheus/prometheus/cmd/promtool
	cd deploy/monitoring/prometheus && $(PROMTOOL) check rules rules.yml && $(PROMTOOL) test rules rules_test.yml
	$(PROMTOOL) check metrics < internal/admin/testdata/metrics.txt
	$(GO) -C deploy/monitoring test -tags remove_all_sd ./...

# A chart cannot contain links. A test of deploy-check finds copies that are out of date.
chart: ## copies the alert rules and the dashboard into the Helm chart
	cp deploy/monitoring/prometheus/rules.yml deploy/monitoring/grafana/replicator.json deploy/helm/replicator/files/

# A separate module, because the product needs neither Helm, kustomize nor the types of Kubernetes.
# Its first build takes a minute or two.
deploy-check: ## everything in deploy/: manifests, Helm chart, image definitions, binary, systemd unit, every configuration; offline
	cd deploy/check && $(GO) test -count=1 ./... # -count=1, because the checked files are outside the module and Go cannot notice their changes

# A separate module, because the product does not need Beam. Its first build takes a minute.
beam: ## replicator-beam: vet, then loads by jobs on Beam's local runner, beside workers that are killed
	$(GO) -C beam vet ./...
	$(GO) -C beam test -count=1 $(LIMIT) ./... # -count=1, because the tested program is outside the module

manual: ## the man pages and completions that a release ships, in bin/manual
	rm -rf bin/manual && mkdir -p bin/manual
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} $(GO) test ./cmd/replicator -vet=off -count=1 -run '^TestManual$$' -args -manual $(CURDIR)/bin/manual

# A separate module, because goreleaser brings hundreds of modules. Its first build takes minutes.
# So .ci/run skips it, and deploy/check checks only the configuration.
# Without Docker, deploy/release/stand-in checks what the image would be built from.
release-check: ## a release without publishing it: checks .goreleaser.yaml, builds archives, deb, rpm and image in dist/, inspects them, and runs go install from a tag
	$(GO) -C deploy/release build -o $(GORELEASER) github.com/goreleaser/goreleaser/v2
	$(GORELEASER) check
	IMAGE=$(CURDIR)/dist/image PATH="$(if $(shell docker info >/dev/null 2>&1 && docker buildx inspect 2>/dev/null),,$(CURDIR)/deploy/release/stand-in:)$$PATH" \
		$(GORELEASER) release --snapshot --clean --skip=publish,sign$(if $(shell command -v syft),,$(comma)sbom)
	./deploy/release/look dist
	./deploy/release/install

# A separate module, because it needs newer modules than the product.
vuln: ## known vulnerabilities in called code, by govulncheck; passes with a note if the database (VULNERABILITIES) cannot be reached
	$(GO) -C test/vulnerabilities build -o $(GOVULNCHECK) golang.org/x/vuln/cmd/govulncheck
	$(GO) -C test/vulnerabilities test ./...
	./test/vulnerabilities/check $(GOVULNCHECK) $(VULNERABILITIES) ./...

demo: build ## a whole migration on this machine
	bin/replicator demo

# The features that seeds play beside the stream.
PLAY = $(if $(DENSE),-dense) $(if $(VERIFIES),-verifies) $(if $(EXPORTS),-exports) $(if $(FAILOVERS),-failovers) $(if $(FAST),-fast) $(if $(PLAIN),-plain) $(if $(RELAY),-relay) \
	$(if $(DUAL_WRITES),-dual-writes) $(if $(MAPPINGS),-mappings) $(if $(CUTOVERS),-cutovers) $(if $(NEIGHBOURS),-neighbours) $(if $(FALLBACK),-fallback) $(if $(ROLLBACK),-rollback)

sim: ## one seed (SEED, default 1) of the simulation: a failure, reduced, with its history; MAPPING= for one of the examples; DENSE=1, EXPORTS=1 … as for soak
	$(GO) run ./test/sim/soak -explain $(SEED) -mapping "$(MAPPING)" $(PLAY)

# To play very many seeds, use Go's experimental encoding/json: GOEXPERIMENT=jsonv2 make soak
# SEEDS=… The traces are the same, and it takes a quarter less time. Releases and the gate use the
# standard one.
soak: ## SEEDS (default 2000) virtual days, from seed FROM (default 0) on: virtual hours, the count of each fault, failures; DRAW=1: each seed chooses its features; otherwise DENSE=1 doubles the faults, and these add a feature: VERIFIES=1 verifies, EXPORTS=1 loads from exports, FAILOVERS=1 another cluster, RELAY=1 a topic, DUAL_WRITES=1 an application that writes both stores, MAPPINGS=1 mappings that are replaced, CUTOVERS=1 cutovers, NEIGHBOURS=1 two pipelines on one target, FALLBACK=1 the way back after a cutover, ROLLBACK=1 rollbacks
	$(GO) run ./test/sim/soak -seeds $(SEEDS) -from $(FROM) $(if $(DRAW),-draw) $(PLAY)

# With SEEDS on the command line: only fresh seeds, and those that find a bug are kept. Without:
# first the seed that found the bug last time.
MUTANTS = $(if $(filter command,$(origin SEEDS)),-hunt -seeds $(SEEDS) -from $(FROM)) -only "$(ONLY)" -files "$(FILES)" -share "$(SHARE)"

mutants: ## planted bugs (test/mutation/planted), each of which the simulation must find; ONLY=regexp of file: name; FILES= of these product files, SHARE=K/N a share of the others; SEEDS=400 plays only fresh seeds, and keeps those that find a bug
	$(GO) run ./test/mutation $(MUTANTS)

mutation-score: ## how many of a hundred bugs planted by rule each package's own tests find, against test/mutation/score/floors.txt; PACKAGES=cdc,sink prints those that no test finds; takes minutes
	$(GO) run ./test/mutation/score $(if $(PACKAGES),-packages $(PACKAGES) -lived)

soak-kept: ## the seeds that once found a bug
	$(GO) run ./test/sim/soak -kept test/sim/testdata/seeds.txt

soak-processes: ## ROUNDS (default 10) of real processes: killed, frozen, cut off; SEED is the first
	REPLICATOR_PROCESS_ROUNDS=$(ROUNDS) REPLICATOR_PROCESS_SEED=$(SEED) $(GO) test ./test/processes -vet=off -count=1 -run TestRounds -v -timeout 120m

soak-migrations: ## real processes: an application that writes both stores beside two workers, its cutover, and a rollback
	$(GO) test ./test/processes -vet=off -count=1 -run '^(TestDualWrites|TestCutover|TestRollback)$$' -v

soak-relay: $(BIGTABLE_EMULATOR) ## ROUNDS (default 10) of a relay and four appliers, real processes between Pub/Sub's emulator and Bigtable's: killed, frozen, cut off
	REPLICATOR_PROCESS_BIGTABLE=$(BIGTABLE_EMULATOR) REPLICATOR_PROCESS_ROUNDS=$(ROUNDS) REPLICATOR_PROCESS_SEED=$(SEED) \
		$(GO) test ./test/processes -vet=off -count=1 -run TestRelay -v -timeout 120m

bench: ## performance goals as ratios to a baseline of the same run, into bench/results.txt; ROUNDS (default 5); bench/run go for Go's benchmarks
	./bench/run

bench-smoke: ## the goals and every benchmark once
	./bench/run smoke

bench-load: ## a table of ITEMS (default 1000000), with EXPORT=1 an export of it, copied by four workers with INTERRUPTIONS (default 20): items read, memory, differences; OUT saves the output
	$(GO) run ./bench/load $(if $(EXPORT),-export )-items $(ITEMS) -interruptions $(INTERRUPTIONS) -out "$(OUT)"

conformance: tools ## documented behaviour of DynamoDB, embedded and dynoxide; exports read from fake-gcs-server and gofakes3; the program between dynoxide and Google's Bigtable emulator, killed KILLS times (default 24; 0: only the cases)
	$(GO) run ./test/conformance/check -dynoxide $(DYNOXIDE) -crate $(DYNOXIDE_VERSION) -bigtable $(BIGTABLE_EMULATOR) -stores $(STORES) -kills $(KILLS) -seed $(SEED) $(if $(WRITE),-write)

# A separate module, because the product does not need to drive a browser.
browser: $(AXE) ## the pages in headless Chromium (or REPLICATOR_BROWSER), which is installed if missing, as root on Debian; UPDATE=1 renews the pictures of docs/images
	./test/browser/install
	REPLICATOR_AXE=$(AXE) $(GO) -C test/browser test -count=1 -parallel 6 $(if $(UPDATE),-args -update)

$(AXE):
	@command -v npm >/dev/null || { echo "npm is missing: install it (Debian: apt-get install npm) to bring axe-core $(AXE_VERSION)"; exit 1; }
	@mkdir -p $(TOOLS)/axe-core
	cd $(TOOLS)/axe-core && npm pack --silent axe-core@$(AXE_VERSION) && tar -xzf axe-core-$(AXE_VERSION).tgz package/axe.min.js
	echo "$(AXE_SHA256)  $(TOOLS)/axe-core/package/axe.min.js" | sha256sum --check --quiet
	mv $(TOOLS)/axe-core/package/axe.min.js $(AXE)
	rm -r $(TOOLS)/axe-core

soak-run: ## DURATION (default 1h) of continuous load on real processes; fails if memory, goroutines or descriptors grow; OUT saves the output
	$(GO) run ./test/processes/soak -duration $(DURATION) -seed $(SEED) -out "$(OUT)"

tools: $(DYNOXIDE) $(BIGTABLE_EMULATOR) $(STORES) ## builds the tools of conformance into TOOLS: dynoxide (with cargo, once, a minute or two), Google's Bigtable emulator and two object stores

.PHONY: $(BIGTABLE_EMULATOR) $(STORES) # Go knows whether they are up to date
$(BIGTABLE_EMULATOR):
	$(GO) build -o $(BIGTABLE_EMULATOR) cloud.google.com/go/bigtable/cmd/emulator

# A separate module, because the servers bring forty modules that neither the product nor its other
# tests need.
$(STORES):
	$(GO) -C test/conformance/stores build -o $(STORES) .

# Only the server, not optimised: it builds in less than half the time, and the checks take no
# longer.
$(DYNOXIDE):
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust (https://rustup.rs) to build dynoxide-rs $(DYNOXIDE_VERSION)"; exit 1; }
	CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
		cargo install --locked dynoxide-rs --version $(DYNOXIDE_VERSION) --root $(TOOLS)/dynoxide-$(DYNOXIDE_VERSION) \
		--no-default-features --features native-sqlite,http-server,cli
