# Every target calls a script that also runs alone. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash

.PHONY: help
help: ## list all targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## install packages and download Go modules; quickstart, verify, bench and the tests do that themselves
	scripts/deps

.PHONY: build
build: ## build the programs into bin/
	scripts/build

.PHONY: image
image: ## assemble the container images into dist/image without an engine; the Dockerfile builds the same with one
	scripts/image

.PHONY: image-offline
image-offline: ## check that the images build without a network, from downloads of Go modules; minutes (needs root)
	scripts/image-offline

.PHONY: release
release: ## write the provider components and metadata.yaml for clusterctl into dist/release (DROVER_VERSION=v1.2.3)
	scripts/release

.PHONY: generate
generate: ## regenerate clients, deep copies, CRDs, reference documents and the API record
	scripts/generate

.PHONY: ui
ui: ## check, test and build the web UI, from pkg/ui/web to pkg/ui/dist; verify does too
	scripts/ui

.PHONY: verify
verify: ## check every module: generated files, promised API, module files, vet, linter, import rules
	scripts/verify

.PHONY: lint
lint: ## run the linter in every module
	scripts/lint

.PHONY: vulncheck
vulncheck: ## look for known vulnerabilities in every module, if the database answers (GOVULNDB=mirror); verify does too
	scripts/vulncheck

.PHONY: test
test: ## run the tests that every change must pass: unit, contract, browser, and end-to-end tests of tests/e2e/ci.txt
	scripts/test

.PHONY: test-all
test-all: ## run every test, also all model steps, a crash after every write, mutants, FULL=1 and the soak; many hours
	scripts/test all

.PHONY: test-unit
test-unit: ## run the pure, handler and in-memory tests of every module, with the race detector (RUN=regex)
	scripts/test-unit

.PHONY: test-model
test-model: ## run random models of the planner: 100,000 steps, without the race detector (STEPS=n, SEED=n or random)
	scripts/test-model

.PHONY: test-crash
test-crash: ## run stories with the process killed after every write; test-unit runs samples (RUN=regex); about an hour
	scripts/test-crash

.PHONY: fuzz
fuzz: ## fuzz the parsers of paths, headers, plans and frames, 60 s for each target (FUZZ=10s, RUN=regex)
	scripts/fuzz

.PHONY: mutants
mutants: ## put a fault into the code for every invariant and weakness, and check that the tests notice it (RUN=regex)
	scripts/mutants

.PHONY: test-contract
test-contract: ## run tests on a real API server with real Cluster API controllers (RUN=regex, FULL=1 for all)
	scripts/test-contract

.PHONY: test-ui
test-ui: ## run tests of the web UI in Chromium, on a real API server with simulated machines (RUN=regex)
	scripts/test-ui

.PHONY: screenshots
screenshots: ## write pictures of the web UI into docs/pictures
	scripts/screenshots

.PHONY: test-e2e
test-e2e: ## run tests on real systemd machines (RUN=regex, FULL=1 for all, INSTALLER=path for a real RKE2 or K3s)
	scripts/test-e2e

.PHONY: bench
bench: ## measure and print JSON: time, writes and CPU of fleets, reaching clusters, web UI, decisions (FLEETS="5x4")
	@scripts/bench

.PHONY: bench-scale
bench-scale: ## grow a fleet to 1,000 clusters x 3 machines, and print its curve as JSON; hours (CLUSTERS=n, MACHINES=n)
	@scripts/bench-scale

.PHONY: soak
soak: ## create and delete clusters for half an hour; fail when the server's use of a resource grows (SOAK=6m)
	scripts/soak

.PHONY: quickstart
quickstart: ## run one real cluster on this machine; Ctrl-C stops it, keeps the data (INSTALLER=path: real RKE2, K3s)
	scripts/quickstart

.PHONY: quickstart-down
quickstart-down: ## remove everything that the quickstart created
	scripts/quickstart-down

.PHONY: clean
clean: ## remove built programs and images
	rm -rf bin dist
