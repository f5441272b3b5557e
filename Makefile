# `make demo` and `make test` do everything, on a machine that has cargo, python3 (3.11 or later),
# git and make. Everything they install goes into .venv and target.

VENV   := .venv
BIN    := $(VENV)/bin
PYTHON ?= python3
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
RUST   := Cargo.toml Cargo.lock pyproject.toml $(shell find crates -name '*.rs' -o -name Cargo.toml)

.PHONY: demo test lint test-rust test-python test-kernel test-kernels bench lab clean

demo: $(VENV)/.anabranch
	$(BIN)/anabranch reproduce olia --quick --out results/olia --force

test: lint test-rust test-python

lint: $(VENV)/.dev
	cargo fmt --check
	cargo clippy --quiet --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy

test-rust:
	cargo test --quiet

# The tests of the kernel backend run the anabranch-lab that the Rust tests have built.
test-python: $(VENV)/.dev
	cargo test --quiet --no-run
	ANABRANCH_LAB=$(TARGET)/debug/anabranch-lab $(BIN)/pytest --quiet

# Needs clang, pkg-config, libelf-dev and zlib1g-dev to build; root, iproute2, nftables and a kernel that
# can run BPF to test.
test-kernel:
	cargo clippy --quiet --package anabranch-kernel --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps --package anabranch-kernel
	cargo test --quiet --package anabranch-kernel

# On Debian's 6.12 and newest kernel, in QEMU. Not part of the gate.
test-kernels:
	crates/kernel/qemu/test-kernels

# The kernel backend, beside the Python that uses it (docs/lab.md).
lab: $(VENV)/.anabranch
	cargo build --quiet --release -p anabranch-lab
	install $(TARGET)/release/anabranch-lab $(BIN)

# Ratios measured in one run; see CONTRIBUTING.md. Never part of the tests.
bench:
	cargo bench --quiet -p anabranch-net -p anabranch-sim

$(VENV)/.anabranch: $(RUST)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable .
	touch $@

$(VENV)/.dev: $(VENV)/.anabranch
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) target results
