# Chaperone. The two commands a newcomer needs: make run, make test.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -ec
GO ?= go
# The build's own revision is part of the protocol (host_commit), so it is
# stamped wherever the sources are a git checkout.
VCS := $(shell git rev-parse HEAD >/dev/null 2>&1 && echo true || echo false)
TALLY = $(GO) run ./scripts/tally

.PHONY: run tour build test check bench torture fuzz fmt lint clients clean

run: ## install Chromium where it is missing, build, and start the server on embedded defaults
	@scripts/need.sh run
	@$(MAKE) --no-print-directory build
	@exec bin/chaperone serve

tour: ## drive a contained browser through a local site, and be refused what nobody allowed
	@scripts/need.sh run
	@$(MAKE) --no-print-directory build
	@examples/tour.sh bin/chaperone

build:
	@mkdir -p bin
	@[ -e bin/chaperone ] || echo "building bin/chaperone (minutes, the first time)" >&2
	@CGO_ENABLED=0 $(GO) build -buildvcs=$(VCS) -trimpath -o bin/chaperone ./cmd/chaperone

test: ## everything, with small counts
	@scripts/test.sh

check: ## the fast subset: formatting, vet, floors and the packages without a browser
	@scripts/need.sh check
	@test -z "$$(gofmt -l cmd internal spec docs web scripts examples)" || { gofmt -l cmd internal spec docs web scripts examples; echo "make fmt mends these"; exit 1; }
	@$(GO) vet ./...
	@$(GO) test -count=1 ./internal/floors ./internal/canon ./internal/refusal ./internal/ref ./internal/identity ./internal/schema ./internal/owned/ownedv1 ./internal/owned/scope ./spec/... ./docs/...

bench: ## our figures beside the rivals' (installs desktop Chromium and the rivals)
	@scripts/bench.sh

torture: ## the full fault counts; evidence goes to docs/evidence/
	@scripts/torture.sh

fuzz: ## every fuzz target for FUZZTIME (default 10m each); the log goes to docs/evidence/
	@mkdir -p docs/evidence && scripts/fuzz.sh $(or $(FUZZTIME),10m) docs/evidence/fuzz.txt

fmt:
	@gofmt -w cmd internal spec docs web scripts examples

lint:
	@$(GO) vet ./...
	@$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

clean:
	@rm -rf bin .cache
