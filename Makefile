# Every target installs its tools in .venv and .tools, and nothing globally.
# PYTHON is the interpreter for creating .venv.
PYTHON ?= python3
.DEFAULT_GOAL := help

ifeq ($(OS),Windows_NT)
BIN := .venv/Scripts
SPARK_BIN := .venv-spark/Scripts
SPARK4_BIN := .venv-spark4/Scripts
RECIPES_BIN := .venv-recipes/Scripts
else
BIN := .venv/bin
SPARK_BIN := .venv-spark/bin
SPARK4_BIN := .venv-spark4/bin
RECIPES_BIN := .venv-recipes/bin
endif
CARGO_DENY := .tools/bin/cargo-deny

# Ignore an active virtual environment or conda environment: packages must go into .venv.
unexport CONDA_PREFIX PYTHONHOME PYTHONPATH
export VIRTUAL_ENV := $(CURDIR)/.venv
export PIP_CONSTRAINT := requirements/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The Rust tests use all features of Cargo.toml except the Python bindings, so they need no Python.
RUST_FEATURES := $(filter-out default python,$(shell sed -n '/^\[features\]/,/^\[[^f]/s/^\([a-z][a-z0-9_-]*\) *=.*/\1/p' Cargo.toml))
CARGO_FEATURES := $(if $(RUST_FEATURES),--features "$(RUST_FEATURES)")
PYTHON_SOURCES := $(foreach folder,python tests/python tests/vectors tests/hostile tests/wheels benches/python benches/index benches/rows benches/spark examples docs/scripts,$(if $(wildcard $(folder)/*.py $(folder)/*/*.py),$(folder)))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile

.PHONY: demo
demo: develop .venv/stamp-demo ## filter a real column, and query a table of late events without and with parsieve
	$(BIN)/python examples/01_filter_a_column.py
	$(BIN)/parsieve demo

# With -j2, the longest target runs first, in parallel with the other two.
.PHONY: test
test: test-spark test-rust test-python ## all tests: Rust, layers, Python, README, examples and Spark

.PHONY: test-rust
test-rust: ## the Rust tests, including the check of the layers; random tests use a fixed seed
	PROPTEST_RNG_SEED=$${PROPTEST_RNG_SEED:-1} cargo test --locked $(CARGO_FEATURES)

.PHONY: compile-test-rust
compile-test-rust: ## compile the Rust tests without running them
	cargo test --locked $(CARGO_FEATURES) --no-run

.PHONY: test-python
test-python: develop .venv/stamp-test ## the Python tests, including the code of the README and the examples
	$(BIN)/python -m pytest --durations=25

# Spark has its own environment. PYTHONPATH makes it use the extension that `develop` builds in the source tree.
.PHONY: test-spark
test-spark: develop .venv-spark/stamp-spark ## the Spark tests, with Hudi, Delta and Iceberg; downloads their jars once
	PYTHONPATH=$(CURDIR)/python $(SPARK_BIN)/python -m pytest tests/python/spark --durations=12

# Hudi has no jars for Spark 4. The slowest tests run in test-spark only.
SPARK4_TESTS := $(addprefix tests/python/spark/test_,file_index.py build.py key_filter.py replaced_files.py last_scan.py session.py source.py)

.PHONY: test-spark4
test-spark4: develop .venv-spark4/stamp-spark4 ## some Spark tests on PySpark 4: plain Parquet, Delta and Iceberg; an older Polars
	PYTHONPATH=$(CURDIR)/python $(SPARK4_BIN)/python -m pytest $(SPARK4_TESTS) tests/python/integrations/polars -k "not many_reads and not stopped_session"

.PHONY: test-recipes
test-recipes: develop .venv-recipes/stamp-recipes ## the recipe for Dagster, in a separate environment
	PYTHONPATH=$(CURDIR)/python $(RECIPES_BIN)/python -m pytest tests/python/recipes/test_dagster.py

.PHONY: test-slow
test-slow: develop .venv/stamp-test .venv-spark/stamp-spark ## the slow tests: a thousand kills of each kind, long models, a cluster
	$(BIN)/python -m pytest -m slow --ignore tests/python/spark
	PYTHONPATH=$(CURDIR)/python $(SPARK_BIN)/python -m pytest -m slow tests/python/spark
	$(BIN)/python tests/python/support/programs/fresh_files.py --times 200

# Older releases of Spark and the table formats. The jars are in tests/python/support/older_jars.py.
OLDER := $(CURDIR)/.venv-older/bin/python

.PHONY: test-matrix
test-matrix: develop .venv-older/stamp ## the tests of Spark and of the table formats with older Spark, Hudi, Delta and Iceberg
	PYTHONPATH=$(CURDIR)/python:$(CURDIR)/tests/python $(OLDER) -m pytest -p support.older_jars tests/python/spark tests/python/lake

.venv-older/stamp: pyproject.toml requirements/constraints-spark.txt .venv/stamp-venv
	$(PYTHON) -m venv --clear .venv-older
	sed '/^py4j==/d; s/^pyspark==.*/pyspark==3.5.3/; s/^deltalake==.*/deltalake==1.5.0/' requirements/constraints-spark.txt \
		>.venv-older/constraints.txt
	$(OLDER) -m pip install --quiet 'pip>=25.1'
	PIP_CONSTRAINT=.venv-older/constraints.txt $(OLDER) -m pip install --quiet --group older
	@touch $@

# The last commit of version 0.1. Its package is unpacked in a separate folder, and uses the libraries of .venv.
OLD_COMMIT := cb5af13
OLD := $(CURDIR)/.tools/parsieve-0.1

.PHONY: test-old
test-old: develop .venv/stamp-test $(OLD)/stamp ## run version 0.1 and this version on the same index
	PARSIEVE_0_1=$(OLD)/site $(BIN)/python -m pytest tests/python/support/programs/mixed_versions.py

$(OLD)/stamp: .venv/stamp-build
	rm -rf $(OLD)/source $(OLD)/wheel $(OLD)/site
	mkdir -p $(OLD)/source
	git archive $(OLD_COMMIT) | tar -x -C $(OLD)/source
	cd $(OLD)/source && CARGO_TARGET_DIR=$(OLD)/target $(CURDIR)/$(BIN)/maturin build --release --locked --out $(OLD)/wheel
	$(BIN)/python -m pip install --quiet --no-deps --target $(OLD)/site $(OLD)/wheel/*.whl
	rm -rf $(OLD)/target
	@touch $@

# The tests that fail for most mistakes, chosen so that all of them take less than a minute.
QUICK_TESTS := $(addprefix tests/python/,test_layers.py test_imports.py core/test_filter.py core/test_hash_vectors.py \
	predicate/test_languages.py plan/test_plan.py plan/evidence/test_negations.py lake/test_plain_folders.py \
	lake/test_folder_columns.py \
	index/test_table_index.py filters/test_added_filters.py io/test_atomic_replacement.py)

.PHONY: quick
quick: develop .venv/stamp-check ## lints, types and the tests that matter most, in less than 90 seconds
	$(MAKE) -j2 test-rust quick-python

.PHONY: quick-python
quick-python:
	$(BIN)/ruff check $(PYTHON_SOURCES)
	$(BIN)/ruff format --check $(PYTHON_SOURCES)
	$(BIN)/mypy $(PYTHON_SOURCES)
	$(BIN)/python -m pytest -q $(QUICK_TESTS)

.PHONY: check
check: develop .venv/stamp-check $(CARGO_DENY) ## check formatting, lints, types, stubs, prose and licenses
	cargo fmt --check
	PYO3_PYTHON=$(CURDIR)/$(BIN)/python cargo clippy --locked --all-targets --all-features -- -D warnings
	$(BIN)/ruff check $(PYTHON_SOURCES)
	$(BIN)/ruff format --check $(PYTHON_SOURCES)
	$(BIN)/mypy $(PYTHON_SOURCES)
	$(BIN)/python tests/python/prose.py
	$(BIN)/python -m mypy.stubtest --mypy-config-file pyproject.toml \
		--allowlist tests/python/stubtest.txt --ignore-unused-allowlist parsieve._core
	$(CARGO_DENY) --locked check bans licenses sources

.PHONY: format
format: .venv/stamp-check ## format the Rust and Python code
	cargo fmt
	$(BIN)/ruff check --fix $(PYTHON_SOURCES)
	$(BIN)/ruff format $(PYTHON_SOURCES)

.PHONY: bench
bench: develop .venv/stamp-bench ## the Rust and Python benches, compared with other libraries; writes benches/results
	cargo bench --locked $(CARGO_FEATURES) --bench main
	$(BIN)/python benches/python/main.py
	$(BIN)/python benches/python/rewrite.py --save
	$(BIN)/python benches/python/probe.py --save
	$(BIN)/python benches/python/tables.py --save
	$(BIN)/python benches/python/many_files.py --save
	$(BIN)/python benches/python/layouts.py --save
	$(BIN)/python benches/python/first_rows.py --save
	$(BIN)/python benches/python/lists.py --save
	$(BIN)/python benches/python/expressions.py --save
	$(BIN)/python benches/python/many_keys.py --save
	$(BIN)/python benches/python/text.py --save
	$(BIN)/python benches/python/log_lines.py --save
	$(BIN)/python benches/python/rows.py --save --features "$(RUST_FEATURES)"
	$(BIN)/python benches/python/integrations.py --save
	$(BIN)/python benches/python/serve.py --save
	$(BIN)/python benches/index/missing_keys.py
	$(BIN)/python benches/index/sieve_size.py --save
	$(BIN)/python benches/index/sieve_lake.py --save
	$(BIN)/python benches/index/sieve_build.py --save
	cargo bench --locked $(CARGO_FEATURES) --bench sieve

.PHONY: bench-spark
bench-spark: develop .venv-spark/stamp-bench-spark ## the Spark benches; keeps a table of 20 million rows in target/thesis
	PYTHONPATH=$(CURDIR)/python $(SPARK_BIN)/python benches/spark/build.py --scale 3.34 --save
	PYTHONPATH=$(CURDIR)/python $(SPARK_BIN)/python benches/spark/engines.py --save
	PYTHONPATH=$(CURDIR)/python $(SPARK_BIN)/python benches/spark/thesis.py target/thesis --save

# Cargo prints the path of the bench. Debian's packages gcc-aarch64-linux-gnu and qemu-user compile and run it.
.PHONY: bench-aarch64
bench-aarch64: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER := aarch64-linux-gnu-gcc
bench-aarch64: .venv/stamp-venv ## count the instructions of hashes and filters on aarch64; needs its gcc and qemu
	rustup target add aarch64-unknown-linux-gnu
	$(BIN)/python benches/python/instructions.py --save $$(cargo bench --locked --no-run --target aarch64-unknown-linux-gnu \
		--bench instructions 2>&1 | tee /dev/stderr | sed -n 's/.*(\(.*instructions-[0-9a-f]*\)).*/\1/p')

# `cargo test` runs the Rust benches with the dependencies that the Rust tests have compiled, not with optimized ones.
.PHONY: bench-smoke
bench-smoke: develop .venv/stamp-bench ## run every bench once with little data, and compare the results
	cargo test --locked $(CARGO_FEATURES) --bench main -- --smoke
	$(BIN)/python benches/python/main.py --smoke
	$(BIN)/python benches/python/rewrite.py --smoke
	$(BIN)/python benches/python/probe.py --smoke
	$(BIN)/python benches/python/tables.py --smoke
	$(BIN)/python benches/python/many_files.py --smoke
	$(BIN)/python benches/python/million_files.py --smoke
	$(BIN)/python benches/python/index_life.py --smoke
	$(BIN)/python benches/python/layouts.py --smoke
	$(BIN)/python benches/python/first_rows.py --smoke
	$(BIN)/python benches/python/lists.py --smoke
	$(BIN)/python benches/python/expressions.py --smoke
	$(BIN)/python benches/python/many_keys.py --smoke
	$(BIN)/python benches/python/text.py --smoke
	$(BIN)/python benches/python/log_lines.py --smoke
	$(BIN)/python benches/python/rows.py --smoke --features "$(RUST_FEATURES)"
	$(BIN)/python benches/python/integrations.py --smoke
	$(BIN)/python benches/python/serve.py --smoke
	$(BIN)/python benches/index/missing_keys.py --smoke
	$(BIN)/python benches/index/sieve_size.py --smoke
	$(BIN)/python benches/index/sieve_lake.py --smoke
	$(BIN)/python benches/index/sieve_build.py --smoke
	cargo test --locked $(CARGO_FEATURES) --bench sieve -- --smoke

# Miri runs the tests of all modules with unsafe code outside the bindings. The target s390x is big-endian. It needs
# Debian's gcc-s390x-linux-gnu to compile a dependency in C, which Miri does not run.
MIRI_TARGETS := x86_64-unknown-linux-gnu s390x-unknown-linux-gnu
miri: export PROPTEST_CASES := 8
miri: export MIRIFLAGS := -Zmiri-strict-provenance -Zmiri-disable-isolation

.PHONY: miri
miri: ## run the Rust tests of modules with unsafe code in Miri; needs nightly Rust with miri and rust-src
	$(foreach target,$(MIRI_TARGETS),cargo +nightly miri test --locked --lib --target $(target) \
		-- bloom:: cursor:: hash:: thrift:: &&) true

# Build the extension with a sanitizer, put it into a copy of the package, and preload gcc's runtime of the sanitizer. The
# C++ library is preloaded too, because the sanitizer must find it before pyarrow throws an exception. Run the Python tests
# that spend most of their time in the extension. The sanitizer prints its report just before the process ends, so pytest
# must not capture it.
SANITIZER ?= address
SANITIZED := target/sanitized/$(SANITIZER)
SANITIZER_RUNTIME = $(shell gcc -print-file-name=lib$(if $(filter address,$(SANITIZER)),asan,tsan).so)
# gcc's runtime of ThreadSanitizer intercepts memcpy, but does not have LLVM's functions for it.
SANITIZER_FLAGS = $(if $(filter thread,$(SANITIZER)),-Cllvm-args=-tsan-instrument-memintrinsics=0)
CPP_RUNTIME = $(shell gcc -print-file-name=libstdc++.so.6)
TESTS_address := core reader filters/test_written_files.py filters/test_added_filters.py
# Polars and deltalake crash with ThreadSanitizer when they are imported. These tests use neither.
TESTS_thread := core/test_threads.py core/test_filter.py filters/test_written_files.py
SANITIZED_TESTS ?= $(addprefix tests/python/,$(TESTS_$(SANITIZER)))

.PHONY: test-sanitized
test-sanitized: develop .venv/stamp-test ## run tests of the extension with SANITIZER=address or thread; needs nightly Rust with rust-src
	RUSTFLAGS="-Zsanitizer=$(SANITIZER) $(SANITIZER_FLAGS)" PYO3_BUILD_EXTENSION_MODULE=1 PYO3_PYTHON=$(CURDIR)/$(BIN)/python \
		cargo +nightly build --locked --release --lib --features python -Zbuild-std --target $(FUZZ_HOST) --target-dir $(SANITIZED)
	rm -rf $(SANITIZED)/python
	cp -R python $(SANITIZED)/python
	cp $(SANITIZED)/$(FUZZ_HOST)/release/libparsieve.so $(SANITIZED)/python/parsieve/_core.abi3.so
	RUST_BACKTRACE=0 LD_PRELOAD="$(SANITIZER_RUNTIME) $(CPP_RUNTIME)" ASAN_OPTIONS=detect_leaks=0 \
		TSAN_OPTIONS=suppressions=tests/python/support/thread_sanitizer.txt PYTHONPATH=$(CURDIR)/$(SANITIZED)/python \
		$(BIN)/python -m pytest -p no:cacheprovider --capture=sys $(SANITIZED_TESTS)

# A free-threaded Python has its own environment, its own build, and the dependencies that have wheels for it.
FREE_THREADED_PYTHON ?= python3.14t
FREE_THREADED_BIN := .venv-free-threaded/bin
# The ignored files compare engines that have no wheels for it.
FREE_THREADED_TESTS ?= $(addprefix tests/python/,core filters index io observe plan predicate reader) \
	$(addprefix --ignore=tests/python/,core/test_docstrings.py core/test_row_files.py plan/same_rows/test_damaged_pages.py)

.venv-free-threaded/stamp: pyproject.toml
	$(FREE_THREADED_PYTHON) -m venv --clear .venv-free-threaded
	$(FREE_THREADED_BIN)/python -m pip install --quiet 'pip>=25.1'
	$(FREE_THREADED_BIN)/python -m pip install --quiet --group build --group free-threaded
	@touch $@

.PHONY: wheel-free-threaded
wheel-free-threaded: .venv-free-threaded/stamp ## build a wheel for FREE_THREADED_PYTHON in dist/
	VIRTUAL_ENV=$(CURDIR)/.venv-free-threaded CARGO_TARGET_DIR=target/free-threaded \
		$(FREE_THREADED_BIN)/maturin build --release --locked --out dist --interpreter $(FREE_THREADED_BIN)/python

.PHONY: test-free-threaded
test-free-threaded: .venv-free-threaded/stamp ## run tests in a Python without the GIL, FREE_THREADED_PYTHON
	VIRTUAL_ENV=$(CURDIR)/.venv-free-threaded CARGO_TARGET_DIR=target/free-threaded $(FREE_THREADED_BIN)/maturin develop --release --locked
	$(FREE_THREADED_BIN)/python -m pytest $(FREE_THREADED_TESTS)

.PHONY: test-long
test-long: develop .venv/stamp-test ## run the tests that take hours: 16 writers with 16,000 commits, and all power cuts
	PARSIEVE_LONG=1 $(BIN)/python -m pytest -m slow tests/python/index/test_index_writers.py tests/python/index/test_killed_writers.py

# These flags give libFuzzer its coverage on stable Rust, without a nightly toolchain or cargo-fuzz.
FUZZ_FLAGS := -Cpasses=sancov-module $(addprefix -Cllvm-args=-sanitizer-coverage-,level=4 inline-8bit-counters pc-table trace-compares)
FUZZ_HOST = $(shell rustc -vV | sed -n 's/^host: //p')
FUZZ_SECONDS ?= 3600
FUZZ_JOBS ?= 1

.PHONY: fuzz
fuzz: develop ## run every fuzz target for FUZZ_SECONDS (an hour), starting with fuzz/seeds and fuzz/corpus
	cd fuzz && RUSTFLAGS="$(FUZZ_FLAGS)" cargo build --locked --release --target $(FUZZ_HOST)
	PYTHONPATH=$(CURDIR)/tests/python $(BIN)/python tests/python/support/programs/fuzz.py run --seconds $(FUZZ_SECONDS) --jobs $(FUZZ_JOBS)

# `llvm-cov` reads the line counts of these programs. They need the fuzzer's own counters too.
.PHONY: fuzz-coverage
fuzz-coverage: develop ## report the lines of the core that the inputs in fuzz/corpus reach; needs rustup's llvm-tools
	cd fuzz && RUSTFLAGS="$(FUZZ_FLAGS) -Cinstrument-coverage" cargo build --locked --release --target $(FUZZ_HOST) \
		--target-dir target/coverage
	PYTHONPATH=$(CURDIR)/tests/python $(BIN)/python tests/python/support/programs/fuzz.py coverage --save

.PHONY: fuzz-smoke
fuzz-smoke: ## run every fuzz target for a minute
	$(MAKE) fuzz FUZZ_SECONDS=60

HOURS ?= 1

.PHONY: soak
soak: develop .venv/stamp-test ## run all random programs for HOURS (one), with new seeds
	$(BIN)/python tests/python/support/programs/long_runs.py soak --hours $(HOURS)

.PHONY: soak-spark
soak-spark: develop .venv-spark/stamp-spark ## let Spark write random Hudi, Delta and Iceberg tables for HOURS, and compare each plan with Spark
	PYTHONPATH=$(CURDIR)/python $(SPARK_BIN)/python tests/python/support/programs/long_runs.py soak --spark --hours $(HOURS)

FOLDER ?= predicate
COUNT ?= 300
SEED ?= 1

.PHONY: mutants
mutants: develop .venv/stamp-test .venv/stamp-mutants ## make COUNT random changes to FOLDER of the package, and list the changes that the tests do not notice
	PYTHONPATH=$(CURDIR)/tests/python $(BIN)/python tests/python/support/programs/mutants.py $(FOLDER) --count $(COUNT) --seed $(SEED) --save

.PHONY: rust-mutants
rust-mutants: develop ## make up to COUNT changes to FOLDER of src, and list the changes that the unit tests do not notice; needs cargo-mutants
	PYTHONPATH=$(CURDIR)/tests/python CARGO_TARGET_DIR=$(CURDIR)/target PROPTEST_RNG_SEED=1 $(BIN)/python \
		tests/python/support/programs/rust_mutants.py $(FOLDER) --count $(COUNT) --seed $(SEED) --features "$(RUST_FEATURES)" --save

RUNS ?= 5

.PHONY: test-under-load
test-under-load: develop .venv/stamp-test .venv-spark/stamp-spark ## run `make test` RUNS times (5) while three busy loops run
	$(BIN)/python tests/python/support/programs/long_runs.py tests --runs $(RUNS) --busy-loops 3

.PHONY: docs
docs: develop .venv/stamp-docs ## build the documentation into site/; warnings are errors
	$(BIN)/mkdocs build --strict

.PHONY: wheel
wheel: .venv/stamp-build ## build a wheel and a source distribution in dist/
	$(BIN)/maturin build --release --locked --out dist
	$(BIN)/maturin sdist --out dist

# Wheels for every Linux that has wheels of pyarrow. zig is a C compiler and linker for all of them. maturin finds the zig
# of .venv through this variable.
linux-wheels: export CARGO_ZIGBUILD_PYTHON_PATH := $(CURDIR)/$(BIN)/python
LINUX_TARGETS := $(foreach libc,gnu musl,x86_64-unknown-linux-$(libc) aarch64-unknown-linux-$(libc))

.PHONY: linux-wheels
linux-wheels: .venv/stamp-wheels ## build wheels for x86-64 and aarch64, glibc and musl, in dist/
	rustup target add $(LINUX_TARGETS)
	$(foreach target,$(LINUX_TARGETS),$(BIN)/maturin build --release --locked --zig --target $(target) --out dist \
		--compatibility $(if $(filter %musl,$(target)),musllinux_1_2,manylinux_2_28) &&) true

.PHONY: test-linux-wheels
test-linux-wheels: .venv/stamp-wheels ## test the Linux wheels of dist/ in separate roots; needs root, Debian and qemu
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tests/wheels/linux.py

# Python interpreters other than the one of .venv, as names or paths.
RELEASE_PYTHONS ?= python3.12 python3.13

.PHONY: release-check
release-check: wheel ## install the wheel into empty environments of RELEASE_PYTHONS and run the examples
	$(BIN)/python tests/release.py $(RELEASE_PYTHONS)

.PHONY: clean
clean: ## remove all build results, including .venv and .tools
	rm -rf .venv .venv-spark .venv-spark4 .venv-recipes .venv-older .venv-free-threaded .tools target dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f python/parsieve/_core.*.so python/parsieve/_core.*.pyd python/parsieve/_core.so python/parsieve/_core.pyd
	find python tests examples benches -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Build the extension into .venv. Cargo rebuilds it only if a source changed.
.PHONY: develop
develop: .venv/stamp-build
	$(BIN)/maturin develop --release --locked

.venv/stamp-venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "parsieve needs Python 3.11 or newer: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@cargo --version >/dev/null || { echo "parsieve needs Rust: https://rustup.rs" >&2; exit 1; }
	$(PYTHON) -m venv --clear .venv
	@touch $@

# One stamp file for each dependency group of pyproject.toml.
.venv/stamp-%: pyproject.toml requirements/constraints.txt .venv/stamp-venv
	$(BIN)/python -m pip install --quiet 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --group $*
	@touch $@

.venv-spark/stamp-venv: .venv/stamp-venv
	$(PYTHON) -m venv --clear .venv-spark
	@touch $@

.venv-spark/stamp-spark: pyproject.toml requirements/constraints-spark.txt .venv-spark/stamp-venv
	$(SPARK_BIN)/python -m pip install --quiet 'pip>=25.1'
	PIP_CONSTRAINT=requirements/constraints-spark.txt $(SPARK_BIN)/python -m pip install --quiet --group spark
	@touch $@

.venv-spark/stamp-bench-spark: .venv-spark/stamp-spark
	PIP_CONSTRAINT=requirements/constraints-spark.txt $(SPARK_BIN)/python -m pip install --quiet --group bench-spark
	@touch $@

.venv-spark4/stamp-venv: .venv/stamp-venv
	$(PYTHON) -m venv --clear .venv-spark4
	@touch $@

.venv-spark4/stamp-spark4: pyproject.toml requirements/constraints-spark4.txt .venv-spark4/stamp-venv
	$(SPARK4_BIN)/python -m pip install --quiet 'pip>=25.1'
	PIP_CONSTRAINT=requirements/constraints-spark4.txt $(SPARK4_BIN)/python -m pip install --quiet --group spark4
	@touch $@

.venv-recipes/stamp-venv: .venv/stamp-venv
	$(PYTHON) -m venv --clear .venv-recipes
	@touch $@

.venv-recipes/stamp-recipes: pyproject.toml requirements/constraints-recipes.txt .venv-recipes/stamp-venv
	$(RECIPES_BIN)/python -m pip install --quiet 'pip>=25.1'
	PIP_CONSTRAINT=requirements/constraints-recipes.txt $(RECIPES_BIN)/python -m pip install --quiet --group recipes
	@touch $@

# Skip optimization: the tool runs for a second, and an optimized build takes minutes.
$(CARGO_DENY):
	CARGO_PROFILE_DEV_DEBUG=false cargo install --debug --locked --root .tools --version 0.20.2 cargo-deny
