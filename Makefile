# `make demo` and `make test` do everything, on a machine that has cargo, python3 (3.11 or later),
# git and make. Everything they install goes into .venv and target.

VENV   := .venv
BIN    := $(VENV)/bin
PYTHON ?= python3
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
STEP   := .ci/step
RUST   := Cargo.toml Cargo.lock pyproject.toml $(shell find crates -name '*.rs' -o -name Cargo.toml)

# What `pip install` would install and build with: known before the build, whose output is then seen.
define LIST
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))
print(*project["build-system"]["requires"], *project["project"]["dependencies"], sep="\n")
endef
export LIST

.PHONY: demo test lint test-rust test-python test-kernel test-kernels bench fuzz lab dist wheel deb \
	test-dist matrix clean

# Exit code 1 says that a claim fails, as one may in runs this short; the output names it.
demo: $(VENV)/.anabranch
	@echo "3/3 OLIA draft: 3 short runs per case (1 to 2 min)"
	@$(BIN)/anabranch reproduce olia --quick --out results/olia --force || test $$? -eq 1

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

# The tests of the kernel backend run the anabranch-lab that the Rust tests have built, alone, because
# they are in real time.
test-python: $(VENV)/.dev
	cargo test --quiet --no-run
	ANABRANCH_GATEWAY=$(TARGET)/debug/anabranch-gateway \
		$(BIN)/pytest --quiet -rs --numprocesses auto --dist loadfile --ignore tests/test_kernel.py
	ANABRANCH_LAB=$(TARGET)/debug/anabranch-lab $(BIN)/pytest --quiet -rs tests/test_kernel.py

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
	cargo bench --quiet -p anabranch-net -p anabranch-sim -p anabranch-quic

# Random input for every parser of the gateway that reads from the network, 10 minutes at once; not part
# of the gate, which replays crates/gateway/fuzz/corpus. FUZZ_SECONDS=60 make fuzz is shorter.
fuzz:
	cargo test --quiet -p anabranch-gateway parsers_are_fuzzed -- --ignored --nocapture

$(VENV)/.anabranch: $(VENV)/.dependencies $(RUST)
	@$(STEP) "2/3 Anabranch, compiled by cargo (1 to 6 min)" \
		env VIRTUAL_ENV=$(abspath $(VENV)) PIP_QUIET=1 $(BIN)/maturin develop --release
	@touch $@

$(VENV)/.dependencies: pyproject.toml
	@$(STEP) "1/3 Virtual environment $(VENV) and dependencies (1 to 3 min)" \
		sh -ec '$(PYTHON) -m venv $(VENV); $(BIN)/python -c "$$LIST" | $(BIN)/pip install -r /dev/stdin'
	@touch $@

$(VENV)/.dev: $(VENV)/.anabranch
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .nox dist target results
