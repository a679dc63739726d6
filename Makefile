# Everything a developer does here. CI runs `check` and `test` as they stand.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# A backend is a folder beside the library they share.
GUESTS := $(filter-out sdk,$(notdir $(patsubst %/Cargo.toml,%,$(wildcard guest-backends/*/Cargo.toml))))
# From inside the folder, where cargo finds the settings of the wasm target.
GUEST_CARGO := cd guest-backends && CARGO_TARGET_DIR=../target/guests cargo
GUEST_TARGET := wasm32-wasip2
BACKENDS_DIR ?= backends
PREFIX ?= $(HOME)/.local
# For those who work on it, so links to private items are welcome.
export RUSTDOCFLAGS := -D warnings -A rustdoc::private_intra_doc_links
# More than there are cores: many tests wait for timeouts and leases.
export RUST_TEST_THREADS ?= $(shell expr $$(nproc) \* 2)
# What `test-live` runs: columns and rows of the matrix, `latest` for the newest releases, anything to run all again, other sandbox.
export BACKEND CASE CLI_VERSIONS FRESH
# Signs what `dist` makes.
export MINISIGN_KEY
DOC := doc --no-deps --document-private-items
# Tests that start `aetheel-kit`: cargo builds it with the test of its package only.
WITH_KIT := --test integration --test program

.PHONY: help setup guest-crates guests languages language demo first-build install test proof test-templates test-browser earlier-state chaos chaos-cluster check fuzz attack-directories bench measure test-live dist test-dist clean

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## /\1:/p' Makefile | while IFS=: read -r name line; do printf '  make %-14s %s\n' "$$name" "$$line"; done

setup: ## install the toolchain, its wasm target and the hook for commits; quick when they are there
	@scripts/setup

# The flags below name the folder of the crates, which does not exist before the first of them is there.
guest-crates: setup
	@$(GUEST_CARGO) fetch --locked --quiet

# A component is the same bytes wherever it is built.
guests: export CARGO_TARGET_WASM32_WASIP2_RUSTFLAGS = $(shell scripts/same-paths)
guests: guest-crates ## build the backends and put the changed ones into backends/
	$(GUEST_CARGO) build --release --target $(GUEST_TARGET)
	@scripts/install-guests $(BACKENDS_DIR) $(GUESTS:%=target/guests/$(GUEST_TARGET)/release/%.wasm)

demo: first-build guests ## talk to the scripted demo agent in this terminal; needs no key
	cargo build --bin aetheel --bin aetheel-hold
	@scripts/demo

# The first line of `demo` on a machine that has built nothing yet.
first-build:
	@[ -x target/debug/aetheel ] || echo "Aetheel is built from source first: about seven minutes on two cores, and about 4 GiB in target/. Later starts take seconds."

install: guests ## build a release and install it with its backends; PREFIX=~/.local
	cargo build --release --bins
	@scripts/install target/release $(PREFIX)

languages: guests ## build the example backend in every language whose toolchain can be had: docs/languages.md
	cargo build --bins
	@scripts/languages

language: guests ## the same for one of them; LANG=c
	cargo build --bins
	@scripts/languages $(if $(filter command,$(origin LANG)),$(LANG))

test: guests languages ## run the tests of the guests and the host that need no real agent, no browser and no other toolchain
	@scripts/postgres
	@scripts/test-programs
	@scripts/registry
	$(GUEST_CARGO) test --workspace
	cargo test --workspace

test-templates: guests languages ## build and test what `aetheel backend new` writes, every language and kind; `test` leaves the slow ones out
	cargo test $(WITH_KIT) kit::templates -- --include-ignored

proof: guests ## change every key of every recording and look for lost answers, and mend backends: all of what `test` takes a sample of; half an hour
	MUTANTS=all cargo test --release $(WITH_KIT) -- --include-ignored --nocapture proof:: mending::

test-browser: guests ## use the dashboard with Chromium: keys, no script, phones, barriers (axe), pictures; UPDATE_SCREENSHOTS=1 writes these
	@scripts/install-browser
	cargo test --test integration browser:: -- --ignored

earlier-state: guests ## write the state folder that later versions must continue, with the present program: tests/fixtures/earlier-state
	rm -rf tests/fixtures/earlier-state
	EARLIER_STATE=$(CURDIR)/tests/fixtures/earlier-state cargo test --test integration gateway::earlier_state -- --ignored

chaos: guests ## kill and upgrade the program again and again under load, about half an hour; KILLS= OPEN_KILLS= UPGRADES= EVENTS= CHANNELS= LATENCY= SEED=
	KILLS=$${KILLS:-200} OPEN_KILLS=$${OPEN_KILLS:-300} UPGRADES=$${UPGRADES:-20} EVENTS=$${EVENTS:-5000} CHANNELS=$${CHANNELS:-40} cargo test $(WITH_KIT) gateway::chaos:: -- --nocapture

chaos-cluster: guests ## three machines for one bot under load: kills, sleep, cut and stalled links, a killed database, a database that refuses, clocks 30 s apart; an hour; FAULTS= EVENTS= CHANNELS= KINDS= SEED=
	@scripts/postgres
	FAULTS=$${FAULTS:-1000} CHANNELS=$${CHANNELS:-100} cargo test --test integration gateway::chaos_cluster -- --nocapture

check: guests ## formatting, lints, prose, documentation, dependencies: what CI insists on
	scripts/commit-msg --self-test
	scripts/prose --self-test
	scripts/prose --check
	scripts/house --self-test
	scripts/house --check
	scripts/components --check
	cargo fmt --all --check
	$(GUEST_CARGO) fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy --no-default-features --bins -- -D warnings
	$(GUEST_CARGO) clippy --workspace --all-targets -- -D warnings
	$(GUEST_CARGO) clippy --workspace --target $(GUEST_TARGET) -- -D warnings
	cargo $(DOC) --lib
	$(GUEST_CARGO) $(DOC) --workspace
	scripts/cargo-deny --log-level error check bans licenses sources
	scripts/cargo-deny --log-level error --manifest-path guest-backends/Cargo.toml --config deny.toml check bans licenses sources
	scripts/cargo-deny --log-level error --manifest-path fuzz/Cargo.toml --config deny.toml check bans licenses sources

fuzz: setup ## fuzz whatever reads what others wrote; SECONDS= for each target (5), TARGET= for one
	@scripts/fuzz $(or $(SECONDS),5) $(TARGET)

attack-directories: guests ## start agents for a minute while their directory is exchanged with links; SECONDS=
	AETHEEL_ATTACK_SECONDS=$(or $(SECONDS),60) cargo test --test integration process::replaced_directory -- --nocapture

bench: guests languages ## measure; figures and how to read them: docs/performance.md, docs/languages.md
	$(GUEST_CARGO) build --release --workspace --examples
	cargo bench --bench '*'
	cargo build --release --bins
	@AETHEEL=target/release/aetheel scripts/bench-languages

measure: guests ## print how long a confined start and reading a hundred thousand old turns take
	cargo test --release --lib workspace::turns::tests -- --ignored --nocapture
	cargo test --test integration process::confined -- --ignored --nocapture

test-live: guests ## run the real agents against a scripted model service, offline: docs/compatibility.md; BACKEND= CASE= CLI_VERSIONS=latest
	scripts/install-agents
	scripts/live-cases

dist: guests ## build a release into target/dist: docs/releasing.md; TARGETS=aarch64-unknown-linux-gnu MINISIGN_KEY=
	@scripts/dist $(TARGETS)

test-dist: ## install what `dist` made into empty systems and talk to the demo agent; needs root, debootstrap and a package mirror
	@scripts/test-dist

clean: ## remove everything that was built
	rm -rf target $(GUESTS:%=$(BACKENDS_DIR)/%.wasm)
