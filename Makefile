# `make demo` and `make test` do everything, on a machine that has cargo, python3 (3.11 or later),
# git and make. Everything they install goes into .venv and target.

VENV   := .venv
BIN    := $(VENV)/bin
PYTHON ?= python3
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
RUST   := Cargo.toml Cargo.lock pyproject.toml $(shell find crates -name '*.rs' -o -name Cargo.toml)

.PHONY: demo test lint test-rust test-python test-kernel test-kernels bench lab dist wheel deb \
	test-dist matrix clean

demo: $(VENV)/.anabranch
	$(BIN)/anabranch reproduce olia --quick --out results/olia

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

# Wheel, sdist and Debian package in dist/. The Debian package needs what crates/kernel needs to build,
# dpkg-dev and help2man.
dist: wheel deb

wheel: $(VENV)/.dev
	$(BIN)/maturin build --quiet --release --out dist
	$(BIN)/maturin sdist --out dist

deb:
	packaging/debian/build dist

# What is in dist/ as users have it: without Rust, outside the checkout; the Debian package installed
# and removed under systemd in a container, as root.
test-dist: dist
	$(BIN)/nox --session wheel sdist
	packaging/debian/test dist/anabranch-kernel_*.deb

# The Python tests with each Python (python3.11, python3.12, python3.13 on the PATH) and with the oldest
# and the newest dependencies. MATRIX="tests/cli -k run" passes arguments to pytest.
matrix: wheel
	$(BIN)/nox --session tests -- $(MATRIX)

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
	rm -rf $(VENV) .nox dist target results
