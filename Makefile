# Every target sets up what it needs in .venv and .tools; nothing is installed globally.
# PYTHON chooses the interpreter that .venv is made with.
PYTHON ?= python3
.DEFAULT_GOAL := help

ifeq ($(OS),Windows_NT)
BIN := .venv/Scripts
SPARK_BIN := .venv-spark/Scripts
SPARK4_BIN := .venv-spark4/Scripts
else
BIN := .venv/bin
SPARK_BIN := .venv-spark/bin
SPARK4_BIN := .venv-spark4/bin
endif
CARGO_DENY := .tools/bin/cargo-deny

# A virtual environment or conda environment of the shell must not catch what belongs into .venv.
unexport CONDA_PREFIX PYTHONHOME PYTHONPATH
export VIRTUAL_ENV := $(CURDIR)/.venv
export PIP_CONSTRAINT := requirements/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The Rust tests run with every feature of Cargo.toml but the Python bindings, so that they need no Python.
RUST_FEATURES := $(filter-out default python,$(shell sed -n '/^\[features\]/,/^\[[^f]/s/^\([a-z][a-z0-9_-]*\) *=.*/\1/p' Cargo.toml))
CARGO_FEATURES := $(if $(RUST_FEATURES),--features "$(RUST_FEATURES)")
PYTHON_SOURCES := $(foreach folder,python tests/python tests/vectors tests/hostile benches/python benches/spark examples docs/scripts,$(if $(wildcard $(folder)/*.py $(folder)/*/*.py),$(folder)))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile

.PHONY: demo
demo: develop .venv/stamp-demo ## a filter of a real column; a lake of late events, asked without and with parsieve
	$(BIN)/python examples/01_filter_a_column.py
	$(BIN)/parsieve demo

# With -j2 the longest goes first, beside the two others.
.PHONY: test
test: test-spark test-rust test-python ## all tests: Rust, layers, Python, README, examples and Spark

.PHONY: test-rust
test-rust: ## the Rust tests, with the test that the layers point one way; random ones as in the run before
	PROPTEST_RNG_SEED=$${PROPTEST_RNG_SEED:-1} cargo test --locked $(CARGO_FEATURES)

.PHONY: compile-test-rust
compile-test-rust: ## compile the Rust tests, and run none
	cargo test --locked $(CARGO_FEATURES) --no-run

.PHONY: test-python
test-python: develop .venv/stamp-test ## the Python tests, with the README's code and the examples
	$(BIN)/python -m pytest

# What runs on Spark has an environment of its own; the extension is the one that develop builds beside the sources.
.PHONY: test-spark
test-spark: develop .venv-spark/stamp-spark ## the tests on Spark, with Hudi, Delta and Iceberg; downloads their jars once
	PYTHONPATH=$(CURDIR)/python $(SPARK_BIN)/python -m pytest tests/python/spark --durations=12

# Hudi has no jars for it. What takes long for reasons of its own is left to test-spark.
SPARK4_TESTS := $(addprefix tests/python/spark/test_,file_index.py build.py key_filter.py replaced_files.py last_scan.py session.py source.py)

.PHONY: test-spark4
test-spark4: develop .venv-spark4/stamp-spark4 ## a share of them on the newest PySpark: plain Parquet, Delta and Iceberg
	PYTHONPATH=$(CURDIR)/python $(SPARK4_BIN)/python -m pytest $(SPARK4_TESTS) -k "not many_reads and not stopped_session"

.PHONY: test-slow
test-slow: develop .venv/stamp-test .venv-spark/stamp-spark ## what takes long: a thousand kills of each kind, long models, a cluster
	$(BIN)/python -m pytest -m slow --ignore tests/python/spark
	PYTHONPATH=$(CURDIR)/python $(SPARK_BIN)/python -m pytest -m slow tests/python/spark

.PHONY: check
check: develop .venv/stamp-check $(CARGO_DENY) ## formats, lints, types, stubs, prose and licenses
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
format: .venv/stamp-check ## rewrite Rust and Python in the house format
	cargo fmt
	$(BIN)/ruff check --fix $(PYTHON_SOURCES)
	$(BIN)/ruff format $(PYTHON_SOURCES)

.PHONY: bench
bench: develop .venv/stamp-bench ## the Rust and Python benches beside their peers; writes benches/results
	cargo bench --locked $(CARGO_FEATURES) --bench main
	$(BIN)/python benches/python/main.py
	$(BIN)/python benches/python/rewrite.py --save
	$(BIN)/python benches/python/probe.py --save
	$(BIN)/python benches/python/tables.py --save
	$(BIN)/python benches/python/many_files.py --save
	$(BIN)/python benches/python/layouts.py --save
	cargo bench --locked $(CARGO_FEATURES) --bench sieve

.PHONY: bench-spark
bench-spark: develop .venv-spark/stamp-bench-spark ## the benches on Spark; the table of 20 million rows stays in target/thesis
	PYTHONPATH=$(CURDIR)/python $(SPARK_BIN)/python benches/spark/build.py --scale 3.34 --save
	PYTHONPATH=$(CURDIR)/python $(SPARK_BIN)/python benches/spark/engines.py --save
	PYTHONPATH=$(CURDIR)/python $(SPARK_BIN)/python benches/spark/thesis.py target/thesis --save

.PHONY: bench-smoke
bench-smoke: develop .venv/stamp-bench ## every bench once, small: do they run and agree
	cargo bench --locked $(CARGO_FEATURES) --bench main -- --smoke
	$(BIN)/python benches/python/main.py --smoke
	$(BIN)/python benches/python/rewrite.py --smoke
	$(BIN)/python benches/python/probe.py --smoke
	$(BIN)/python benches/python/tables.py --smoke
	$(BIN)/python benches/python/many_files.py --smoke
	$(BIN)/python benches/python/layouts.py --smoke
	cargo bench --locked $(CARGO_FEATURES) --bench sieve -- --smoke

# Coverage for libFuzzer by flags that stable Rust takes, so that neither nightly nor cargo-fuzz is needed.
FUZZ_TARGETS := $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))
FUZZ_FLAGS := -Cpasses=sancov-module $(addprefix -Cllvm-args=-sanitizer-coverage-,level=4 inline-8bit-counters pc-table trace-compares)
FUZZ_HOST = $(shell rustc -vV | sed -n 's/^host: //p')
FUZZ_SECONDS ?= 3600

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZ_SECONDS (an hour), from seeds made anew and what is in fuzz/corpus
	cd fuzz && RUSTFLAGS="$(FUZZ_FLAGS)" cargo build --locked --release --target $(FUZZ_HOST)
	@cd fuzz && set -e; for target in $(FUZZ_TARGETS); do \
		echo "fuzzing $$target for $(FUZZ_SECONDS) s"; mkdir -p corpus/$$target artifacts/$$target; \
		FUZZ_SEEDS=corpus/$$target target/$(FUZZ_HOST)/release/$$target corpus/$$target -max_total_time=$(FUZZ_SECONDS) \
			-artifact_prefix=artifacts/$$target/ -timeout=10 -max_len=8192 -rss_limit_mb=1024 >artifacts/$$target.log 2>&1 \
			|| { tail -40 artifacts/$$target.log; exit 1; }; \
		tail -1 artifacts/$$target.log; done

.PHONY: fuzz-smoke
fuzz-smoke: ## every fuzz target for a minute
	$(MAKE) fuzz FUZZ_SECONDS=60

.PHONY: docs
docs: develop .venv/stamp-docs ## build the documents into site/, strictly
	$(BIN)/mkdocs build --strict

.PHONY: wheel
wheel: .venv/stamp-build ## a wheel and a source distribution in dist/
	$(BIN)/maturin build --release --locked --out dist
	$(BIN)/maturin sdist --out dist

# Other Pythons than that of .venv: names, or paths of interpreters.
RELEASE_PYTHONS ?= python3.12 python3.13

.PHONY: release-check
release-check: wheel ## install the wheel into empty environments of RELEASE_PYTHONS, and run the examples there
	$(BIN)/python tests/release.py $(RELEASE_PYTHONS)

.PHONY: clean
clean: ## remove everything that make built, .venv and .tools included
	rm -rf .venv .venv-spark .venv-spark4 .tools target dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f python/parsieve/_core.*.so python/parsieve/_core.*.pyd python/parsieve/_core.so python/parsieve/_core.pyd
	find python tests examples benches -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Builds the extension into .venv; cargo knows whether there is anything to do.
.PHONY: develop
develop: .venv/stamp-build
	$(BIN)/maturin develop --release --locked

.venv/stamp-venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "parsieve needs Python 3.11 or newer: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@cargo --version >/dev/null || { echo "parsieve needs Rust: https://rustup.rs" >&2; exit 1; }
	$(PYTHON) -m venv --clear .venv
	@touch $@

# One stamp for each dependency group of pyproject.toml.
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

# It runs for a second, so it need not be optimised for minutes.
$(CARGO_DENY):
	CARGO_PROFILE_DEV_DEBUG=false cargo install --debug --locked --root .tools --version 0.20.2 cargo-deny
