# Everything a developer does here. CI runs `check` and `test` as they stand.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# A backend is a folder beside the library they share.
GUESTS := $(filter-out sdk,$(notdir $(patsubst %/Cargo.toml,%,$(wildcard guest-backends/*/Cargo.toml))))
GUEST_WORKSPACE := --manifest-path guest-backends/Cargo.toml --target-dir target/guests
GUEST_TARGET := wasm32-wasip2
BACKENDS_DIR ?= backends
# For those who work on it, so links to private items are welcome.
DOC := RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' cargo doc --no-deps --document-private-items

.PHONY: help setup guests demo test check bench test-live clean

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## /\1:/p' Makefile | while IFS=: read -r name line; do printf '  make %-10s %s\n' "$$name" "$$line"; done

setup: ## install the toolchain and its wasm target; quick when they are there
	@scripts/setup

guests: setup ## build the backends and put the changed ones into backends/
	cargo build $(GUEST_WORKSPACE) --release --target $(GUEST_TARGET)
	@scripts/install-guests $(BACKENDS_DIR) $(GUESTS:%=target/guests/$(GUEST_TARGET)/release/%.wasm)

demo: guests ## talk to the scripted demo agent in this terminal; needs no key
	cargo run -- console --backend demo

test: guests ## run all tests of the guests and the host
	cargo test $(GUEST_WORKSPACE) --workspace
	cargo test

check: setup ## formatting, lints, documentation, dependencies: what CI insists on
	cargo fmt --all --check
	cargo fmt --all --check --manifest-path guest-backends/Cargo.toml
	cargo clippy --all-targets -- -D warnings
	cargo clippy $(GUEST_WORKSPACE) --workspace --all-targets -- -D warnings
	cargo clippy $(GUEST_WORKSPACE) --workspace --target $(GUEST_TARGET) -- -D warnings
	$(DOC)
	$(DOC) $(GUEST_WORKSPACE) --workspace
	scripts/cargo-deny --log-level error check bans licenses sources
	scripts/cargo-deny --log-level error --manifest-path guest-backends/Cargo.toml --config deny.toml check bans licenses sources

bench: guests ## measure; figures and how to read them: docs/performance.md
	cargo bench --bench '*'

test-live: guests ## run the real Claude Code against a scripted model service, offline; CASE=part-of-a-name picks some
	scripts/install-claude
	scripts/live-cases '$(CASE)'

clean: ## remove everything that was built
	rm -rf target $(GUESTS:%=$(BACKENDS_DIR)/%.wasm)
