# make alone lists the targets. Of the checks, only `make fix` changes the tree.

GO       ?= go
TOOL      = $(GO) tool -modfile=$(CURDIR)/tools/go.mod
FUZZTIME ?= 30s
# The seeds depend on the commit: each commit has other seeds, and always the same.
SEED     ?= $(shell git -c safe.directory='*' rev-parse HEAD 2>/dev/null || echo 0)
CHAOS    ?= 5m
SNAPSHOT ?= 1GiB
MEMBERS  ?= 64MiB
ROUNDS   ?= 6
HOURS    ?= 1
SET      ?= core
RANGES   ?= 5
REPORTS   = docs/results/reliability
# The reports of make reliability and its progress, until all reports are complete. Git ignores bin, so the tree stays unchanged.
# The build stays the same, too, which a campaign needs to be resumed.
CAMPAIGN  = bin/reliability
FAILOVER  = bin/failover
# The tests that print figures.
MEASURED  = LeaderIsKilledAgainAndAgain|KillOfAllAtOnce|AnIdleCluster|BodiesThatTrickle|ClientsThatNeverRead|TestMeasure
# The packages that are tested with every invariant of the core on.
CORE      = coxswain/raft|fuzzy
# The packages whose tests have one goroutine, but for WORKERS of some: the core, simulated runs, pages, and habits.
SINGLE    = coxswain/raft|handshake|forward|joining|fuzzy|cmd/raftlab|internal/(tracepage|viewer|habits|sim|enums)
WORKERS   = ^TestCompare|^TestApplication|^TestFuzz_Reports|^TestFailover
# The packages whose tests run built programs, which have no race detector.
PROCESSES = cmd/raftkv|cmd/raftkv/upgrade|examples/hosts|examples/service
# "make vet" vets.
TEST      = RAFTKV_PROGRAM='$(CURDIR)/bin/raftkv' $(GO) test -vet=off
# Commands that need not be in the main module are in modules of their own.
MODULES   = . elections bench
# The packages that must build on every system; tests and benchmarks need not.
PORTABLE  = . ./handshake ./forward ./joining ./node ./storage ./transport ./member ./boltfsm ./metrics ./admin ./rafttest ./cmd/raftkv ./cmd/raftctl
# No file of theirs is for one architecture: one with 32 bits stands for them all.
SYSTEMS   = darwin/arm64 windows/amd64 linux/386

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo hosts picture test verify fix bench bench-peers bench-profiles bench-forward bench-page measure measure-snapshots measure-members \
	elections failover fuzz simulate reliability govulncheck previous program format vet lint race portable single core

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## three real nodes on this machine; kill the leader and watch (needs only Go)
	$(GO) run ./cmd/raftkv demo

hosts: ## three hosts with networks of their own, cut off, restarted and moved while clients write: a quarter of a minute (Linux, root)
	$(GO) run ./examples/hosts

picture: program ## draw docs/results/demo.svg and live.png from real runs of the demo whose leader is killed (a minute and a half; Linux, Chromium)
	(sleep 12; printf k; sleep 5; printf r; sleep 3; printf q; sleep 4) | \
		script -qec 'stty cols 110 rows 50; $(GO) run ./cmd/raftkv demo' /dev/null | \
		$(GO) run ./internal/termsvg 'The demo in a terminal: the leader is killed' > docs/results/demo.svg.new
	mv docs/results/demo.svg.new docs/results/demo.svg
	RAFTKV_PICTURE='$(CURDIR)/docs/results/live.png' $(TEST) -count=1 -run TestPicture ./cmd/raftkv

# Tests with real processes wait most of the time: with three packages at once, something always computes. The core and the
# simulators are tested with every invariant of the core on, as -race has it. The pages of the lab, in a browser for a minute, are
# left to "make race".
test: program ## the quick loop: every test, without the race detector
	@packages=$$($(GO) list ./... | grep -vE '/($(CORE))$$') || exit 1; $(call beside,core); \
		$(TEST) -p 3 -parallel 4 -timeout 30m $$packages; $(both)
	cd bench && $(TEST) -tags nopeers -short ./...

# What test runs beside the tests with real processes.
core:
	$(TEST) -timeout 30m -tags invariants . ./fuzzy
	cd elections && $(TEST) -short -tags invariants . ./cmd/...

# Tests that only compute fill the time in which those with real processes wait, at a low priority, so that they disturb none. The
# recipe fails if either fails.
beside = nice -n 10 $(MAKE) --no-print-directory $(1) & beside=$$!
both = code=$$?; wait $$beside && exit $$code

# What all tests with real processes run.
program:
	$(GO) build -o bin/ ./cmd/raftkv

verify: format vet lint portable test race simulate ## the gate before a merge: reads only, changes nothing
	@echo "verify: all passed"

format:
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "gofmt would change (make fix):"; echo "$$out"; exit 1; fi

vet:
	@for m in $(MODULES); do \
		echo "vet $$m"; \
		(cd $$m && $(GO) mod tidy -diff && $(GO) vet ./...) || exit 1; \
	done

# staticcheck would read the sources of all the other libraries that bench measures: vet compiles them.
lint:
	@for m in . elections; do \
		echo "lint $$m"; \
		(cd $$m && $(TOOL) staticcheck ./...) || exit 1; \
	done

portable:
	@for s in $(SYSTEMS); do \
		echo "build for $$s"; \
		GOOS=$${s%/*} GOARCH=$${s#*/} CGO_ENABLED=0 $(GO) build -gcflags='all=-N -l' $(PORTABLE) || exit 1; \
	done

# In one goroutine no race could be found, and a simulated run takes ten times as long under the race detector. With -short, tests
# of storage do fewer rounds of the same, which find no other race; "make test" does all of them.
race: program
	@packages=$$($(GO) list ./... | grep -vE '/($(SINGLE)|$(PROCESSES))$$') || exit 1; $(call beside,single); \
		$(TEST) -p 3 -parallel 4 -timeout 30m -race -short $$packages; $(both)

# What race runs beside the tests with real processes.
single:
	$(TEST) -race -run '$(WORKERS)' ./fuzzy ./cmd/raftlab
	cd elections && $(TEST) -race -run '$(WORKERS)' . ./cmd/...

fix: ## format, and rewrite golden lists, scenarios, the README's example and the tutorial's program: read the diff
	gofmt -w .
	$(GO) test ./internal/habits ./node ./examples/embed ./examples/service -run 'Golden|README|InJSON' -update
	cd elections && $(GO) test . -run Golden -update
	@if grep -ql datadriven *_test.go; then $(GO) test . -run Scenario -rewrite; fi

bench: ## measure our own part of SET (core; full takes hours), and continue where it was interrupted: figures, not a gate
	cd bench && $(GO) run . run --set $(SET) --contestants coxswain

bench-peers: ## the same with the other libraries, in turns: 45 minutes for SET=core on a quiet machine
	cd bench && $(GO) run . run --set $(SET)

bench-profiles: ## profile the three hottest cells of our part into bench/profiles, and print where the time goes
	cd bench && $(GO) run . run --profiles profiles --contestants coxswain-segments --cells '^closed loop, (64|256|1,024) callers, 128 B$$'
	@cd bench && for p in profiles/*/*.pprof; do \
		case $$p in *block*) sort=-cum;; *) sort=-flat;; esac; \
		echo "== $$p"; $(GO) tool pprof -top $$sort -nodecount 20 $$p 2>/dev/null; \
	done

bench-forward: ## compare proposals through followers with those on the leader, in turns: medians and ratios
	$(GO) test ./node -run '^$$' -bench '^BenchmarkForward$$' -benchtime $(or $(ROUNDS),9)x

bench-page: ## write docs/results/benchmarks.md and its pictures from what bench and bench-peers have measured
	cd bench && $(GO) run . page

measure: ## what the tests with real processes measure: failover, slow disks, links that lose and delay (ten minutes)
	@out=$$(RAFTKV_MEASURE=1 $(GO) test -count=1 -parallel 1 -timeout 30m -v -run '$(MEASURED)' ./cmd/raftkv 2>&1) || { echo "$$out"; exit 1; }; \
	echo "$$out" | sed -n 's/^ *e2e_[a-z_]*\.go:[0-9]*: //p'

measure-snapshots: ## measure 1 GiB of snapshots taken, sent and restored under load (SNAPSHOT=64MiB is quick to try), and HOURS (1) of steady load
	@out=$$(RAFTKV_SNAPSHOTS=$(SNAPSHOT) RAFTKV_HOURS=$(HOURS) $(GO) test -count=1 -timeout 180m -v -run 'TestMeasure_(Snapshots|ASteadyHour)' ./cmd/raftkv 2>&1) || { echo "$$out"; exit 1; }; \
	echo "$$out" | sed -n 's/^ *e2e_[a-z_]*\.go:[0-9]*: //p'

measure-members: ## measure writes while a dead member is replaced (MEMBERS=64MiB of state) and voters are added and removed, ROUNDS (6) of each
	@out=$$(RAFTKV_MEMBERS=$(MEMBERS) RAFTKV_ROUNDS=$(ROUNDS) $(GO) test -count=1 -timeout 60m -v -run 'TestMeasure_Members' ./cmd/raftkv 2>&1) || { echo "$$out"; exit 1; }; \
	echo "$$out" | sed -n 's/^ *e2e_[a-z_]*\.go:[0-9]*: //p'

elections: ## test more of the elections lab than the gate does, and write docs/results/elections.md from the whole matrix: twenty minutes on two cores
	cd elections && $(TEST) -timeout 30m .
	$(GO) run -C elections ./cmd/electionlab compare --seeds 500 --markdown > docs/results/elections.md.new
	mv docs/results/elections.md.new docs/results/elections.md

failover: ## write docs/results/failover.md and its pictures: 3 and 5 members, simulated and real, TRIALS (50) of each kind, and other libraries; an hour on a quiet machine, as root
	mkdir -p $(FAILOVER)
	$(GO) build -buildvcs=true -o bin/ ./cmd/raftlab ./cmd/raftkv
	for n in 3 5; do \
		bin/raftlab failover --simulated --members $$n --json > $(FAILOVER)/simulated-$$n.json && \
		bin/raftlab failover --binary bin/raftkv --members $$n --trials $(or $(TRIALS),50) --json > $(FAILOVER)/processes-$$n.json || exit 1; \
	done
	cd bench && $(GO) run . failover --kills $(or $(TRIALS),50) --json > ../$(FAILOVER)/peers.json
	mkdir -p docs/results/failover
	mv $(FAILOVER)/*.json docs/results/failover/
	bin/raftlab failover page > docs/results/failover.md

fuzz: ## run every fuzz target for FUZZTIME (30s)
	@$(GO) list ./... | while read -r package; do \
		$(GO) test -list '^Fuzz' $$package | grep '^Fuzz' | while read -r target; do \
			echo "fuzz $$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package || exit 1; \
		done || exit 1; \
	done

simulate: ## the simulator's share of the gate: SEEDS (1000) of this commit, and of the seeded bugs that must die the half of this commit (ZOO=all: all)
	GOGC=400 $(GO) run ./cmd/raftlab fuzz --profile all --seed $(SEED) --seeds $(or $(SEEDS),1000)
	@half=$$(( $$(printf %s '$(SEED)' | cksum | cut -d ' ' -f 1) % 2 )); list="$(GO) run ./cmd/raftlab zoo --must-kill --list"; \
		mutants=$$($$list | awk -v half=$$half '"$(ZOO)" == "all" || NR % 2 == half { print $$1 }') && \
		$(GO) run ./cmd/raftlab zoo --must-kill $$mutants

reliability: ## once a release: write docs/results/reliability.md anew from SEEDS (200000) seeds, the whole zoo in RANGES (5) ranges and CHAOS (5m) of real processes; after an interrupt it continues where it stopped
	mkdir -p $(CAMPAIGN)
	$(GO) build -buildvcs=true -o bin/raftlab ./cmd/raftlab
	bin/raftlab fuzz --profile all --seed $(SEED) --seeds $(or $(SEEDS),200000) --resume $(CAMPAIGN)/fuzz.progress --json > $(CAMPAIGN)/campaign.json
	bin/raftlab zoo --ranges $(RANGES) --resume $(CAMPAIGN)/zoo.progress --json > $(CAMPAIGN)/zoo.json
	bin/raftlab chaos --duration $(CHAOS) --json > $(CAMPAIGN)/chaos.json
	mv $(CAMPAIGN)/*.json $(REPORTS)/
	bin/raftlab page > $(CAMPAIGN)/reliability.md
	mv $(CAMPAIGN)/reliability.md docs/results/reliability.md
	rm -r $(CAMPAIGN)

govulncheck: ## look for known vulnerabilities in what we compile, if their database can be reached
	@out=$$($(TOOL) govulncheck ./... 2>&1 && cd elections && $(TOOL) govulncheck ./... 2>&1); code=$$?; echo "$$out"; \
	if [ $$code -ne 0 ] && echo "$$out" | grep -q 'vuln\.go\.dev'; then \
		echo "govulncheck: its database cannot be reached from here; nothing was checked"; exit 0; \
	fi; exit $$code

previous: ## after a release: keep its source for the test of rolling upgrades (VERSION=v0.1.0 COMMIT=its hash)
	compat/previous/update.sh "$(VERSION)" "$(COMMIT)"
