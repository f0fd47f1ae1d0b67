# Every target calls a script that also runs alone. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash

.PHONY: help
help: ## show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## install packages and download Go modules, as quickstart, verify, bench and the tests do themselves
	scripts/deps

.PHONY: build
build: ## build the programs into bin/
	scripts/build

.PHONY: image
image: ## assemble the container images into dist/image, without an engine; the Dockerfile makes the same with one
	scripts/image

.PHONY: image-offline
image-offline: ## check that the images are built without a network, from downloads of Go modules, in minutes (needs root)
	scripts/image-offline

.PHONY: generate
generate: ## write generated clients, deep copies, CRDs, reference documents and the record of the API anew
	scripts/generate

.PHONY: verify
verify: ## generated files current, promised API kept, modules tidy, vet, lint, import rules; in every module
	scripts/verify

.PHONY: lint
lint: ## run the linter over every module
	scripts/lint

.PHONY: test
test: ## what a change must pass: unit, contract, and the end-to-end tests of tests/e2e/ci.txt
	scripts/test

.PHONY: test-all
test-all: ## every test: also all steps of the models, a crash after every write, mutants, FULL=1 and the soak; many hours
	scripts/test all

.PHONY: test-unit
test-unit: ## pure, handler and in-memory tests of every module, with the race detector (RUN=regex)
	scripts/test-unit

.PHONY: test-model
test-model: ## random models of the planner: 100,000 steps, without the race detector (STEPS=n, SEED=n or random)
	scripts/test-model

.PHONY: test-crash
test-crash: ## stories with the process killed after every single write, of which test-unit takes samples (RUN=regex); about an hour
	scripts/test-crash

.PHONY: fuzz
fuzz: ## look for inputs that break what reads paths, headers, plans and frames, 60 s for each target (FUZZ=10s, RUN=regex)
	scripts/fuzz

.PHONY: mutants
mutants: ## put a fault for every invariant and weakness into the code; the tests must notice all (RUN=regex)
	scripts/mutants

.PHONY: test-contract
test-contract: ## tests on a real API server with real Cluster API controllers (RUN=regex, FULL=1 for all)
	scripts/test-contract

.PHONY: test-e2e
test-e2e: ## tests on real systemd machines (RUN=regex, FULL=1 for all)
	scripts/test-e2e

.PHONY: bench
bench: ## measure and print JSON: time and API writes per machine, CPU, memory, reaching clusters, topology and render
	@scripts/bench

.PHONY: soak
soak: ## make and delete clusters for half an hour; fails when the server needs more and more of anything (SOAK=6m)
	scripts/soak

.PHONY: quickstart
quickstart: ## one real cluster on this machine; Ctrl-C stops and keeps the data
	scripts/quickstart

.PHONY: quickstart-down
quickstart-down: ## remove everything the quickstart made
	scripts/quickstart-down

.PHONY: clean
clean: ## remove built programs and images
	rm -rf bin dist
