# What a contributor and the CI run. `make` alone lists the targets.

SHELL         := /bin/bash
.SHELLFLAGS   := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

GO   ?= go
# ARGS goes to the program or the test run: make dev ARGS="--ledgers us,eu", make test ARGS="-run TestPost -v".
ARGS ?=
# PKG narrows `make test`: make test PKG=./ledger/...
PKG  ?= ./...

# The version comes from here, not from the toolchain's own stamp, so that a build also works in a checkout without
# git, or in one that git calls unsafe because somebody else owns it.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
export GOFLAGS := $(strip $(GOFLAGS) -buildvcs=false)
LDFLAGS := -X main.version=$(VERSION)

# Tools are pinned here, not in go.mod: as `tool` lines their hundreds of dependencies would take part in choosing
# the versions of ours. Each is built once per version and Go release into a cache that all checkouts share.
GOLANGCI_LINT_VERSION := v2.15.0
WORKFLOWCHECK_VERSION := v0.6.0

TOOLS         := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/payonce/tools/$(shell $(GO) env GOVERSION)
GOLANGCI_LINT := $(TOOLS)/golangci-lint@$(GOLANGCI_LINT_VERSION)
WORKFLOWCHECK := $(TOOLS)/workflowcheck@$(WORKFLOWCHECK_VERSION)

##@ Use

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@ / {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z][a-z-]*:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: ## bin/worker, bin/starter, bin/bench; and what fails on purpose (demo, tests): bin/faultworker, bin/railsim
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./worker ./starter ./internal/faultworker ./internal/railsim ./tests/bench

.PHONY: demo
demo: build ## run the worked failure on this machine, with real faults; ARGS="--output json"
	bin/starter demo $(ARGS)

.PHONY: dev
dev: build ## PostgreSQL, Temporal with its UI, and a worker in the foreground; ARGS="--ledgers us,eu"
	bin/starter dev $(ARGS)

##@ Check

# The race detector needs cgo and a C compiler; without them the tests run all the same.
RACE ?= $(shell [ "$$($(GO) env CGO_ENABLED)" = 1 ] && command -v "$$($(GO) env CC)" >/dev/null && echo -race)

# -count=1: most tests talk to a real PostgreSQL and a real Temporal server, which Go's test cache can't see.
GO_TEST = $(GO) test $(RACE) -shuffle=on -count=1 -timeout=20m $(ARGS)

# The longest first, and as many at once as there are cores: with more, a slow machine is so busy that time-outs are met.
LONG := tests tests/faults ledger/postgres internal/devstack starter worker starter/transfers
ATONCE := $(shell getconf _NPROCESSORS_ONLN)
# These run after the other tests, one at a time: they load the machine, and say how long things may take.
ALONE := /tests/(chaos|health|outage)$$
.PHONY: test
test: export PAYONCE_BIN := $(CURDIR)/bin
test: build prepare ## every test, on real servers that it sets up; PKG=./ledger/... ARGS="-run TestPost"
	packages=$$($(GO) list $(PKG)); \
	  alone=$$(grep -E '$(ALONE)' <<<"$$packages" || true); \
	  others=$$(grep -Ev '$(ALONE)' <<<"$$packages" || true); \
	  long=$$(for p in $(LONG); do grep -x "payonce/$$p" <<<"$$others" || true; done); \
	  [[ -z $$others ]] || $(GO_TEST) -p=$(ATONCE) $$long $$(grep -vxF "$${long:-none}" <<<"$$others" || true); \
	  [[ -z $$alone ]] || $(GO_TEST) -p=1 $$alone

# Temporal's server may have to be built once, which takes minutes: outside any test, so that no test's time-out
# has to allow for it.
.PHONY: prepare
prepare:
	$(GO) run ./internal/devstack/prepare

# One seed a run: the same seed is the same schedule, as far as real processes allow.
ROUNDS ?= 10
SEED   ?= 0
.PHONY: chaos
chaos: build prepare ## random faults for ROUNDS rounds, then an audit; SEED=7 repeats a run
	$(GO) run ./tests/chaos --rounds $(ROUNDS) --seed $(SEED) $(ARGS)

.PHONY: health
health: export PAYONCE_BIN := $(CURDIR)/bin
health: build prepare ## what 2 % of poison costs the other transfers; the machine must do nothing else
	PAYONCE_QUIET_MACHINE=1 $(GO) test -count=1 -v -run TestPoisonAmongMany ./tests/health

# One parser after the other. What is found is written to testdata/fuzz, where every test run meets it again.
FUZZTIME ?= 30s
.PHONY: fuzz
fuzz: ## feed each parser at random for a while; FUZZTIME=5m
	grep -rn --include='*_test.go' '^func Fuzz' . | sort | sed -E 's/^(.*)\/[^/]*:.*func (Fuzz[A-Za-z0-9]*).*/\1 \2/' | \
	  while read -r dir name; do $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5s "$$dir" </dev/null; done

# Alone on the machine: whatever else runs is in the figures. ARGS="--only ledger --quick" measures less.
.PHONY: bench
bench: build prepare ## measure throughput and latency; writes bench/results.json and bench/report.html
	bin/bench $(ARGS)

.PHONY: model
model: ## every interleaving of the transfer protocol, with spin; ATTEMPTS=3 RUNS=3 goes deeper
	docs/protocol/check.sh

.PHONY: lint
lint: lint-mod lint-format lint-go lint-workflows ## everything that is checked without running the code

.PHONY: lint-mod
lint-mod:
	$(GO) mod tidy -diff
	$(GO) mod verify

.PHONY: lint-format
lint-format: $(GOLANGCI_LINT)
	$(GOLANGCI_LINT) fmt --diff

.PHONY: lint-go
lint-go: $(GOLANGCI_LINT)
	$(GO) vet ./...
	$(GOLANGCI_LINT) run

# Workflow code must be deterministic. The checker follows every call; what is cut off is how it goes on below the first
# few, deep into the standard library.
.PHONY: lint-workflows
lint-workflows: $(WORKFLOWCHECK)
	$(WORKFLOWCHECK) ./workflows/... 2>&1 | sed '/^          /d'

.PHONY: fmt
fmt: $(GOLANGCI_LINT) ## format the code (gofumpt, import groups)
	$(GOLANGCI_LINT) fmt

.PHONY: clean
clean: ## remove bin/
	rm -rf bin

$(GOLANGCI_LINT): PACKAGE := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(WORKFLOWCHECK): PACKAGE := go.temporal.io/sdk/contrib/tools/workflowcheck
$(GOLANGCI_LINT) $(WORKFLOWCHECK):
	@echo "building $(@F), once"
	@mkdir -p $(@D)
	@dir=$$(mktemp -d $(@D)/build.XXXXXX); trap 'rm -rf "$$dir"' EXIT; \
	  GOFLAGS= GOBIN="$$dir" $(GO) install $(PACKAGE)@$(lastword $(subst @, ,$(@F))); \
	  mv "$$dir"/* $@
