GO ?= go

.PHONY: build test race vet bench soak cover

build: ## the binary, in bin/
	$(GO) build -trimpath -o bin/replicator ./cmd/replicator

test: vet ## everything that a change must pass; needs no C compiler
	CGO_ENABLED=0 $(GO) test ./...

vet: ## static checks
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

race: ## the same tests under the race detector; needs a C compiler
	$(GO) test -race ./...

bench: ## every hot path, with allocations; results are kept in bench/
	./bench/run
