# Two commands do everything, set-up included: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
TORCH := $(shell grep '^torch==' constraints.txt)

.PHONY: demo test pytest check test-all bench audit lint browser clean

demo: .venv/.base  ## train on embedded data and explain a prediction
	$(BIN)/grace demo

test: .venv/.dev browser  ## lint, types and all tests but the slow ones
	@$(MAKE) --no-print-directory -j2 lint pytest

pytest: .venv/.dev
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow" -rs

check: .venv/.dev lint  ## the quick subset
	$(BIN)/python -m pytest -n auto --dist worksteal -m "quick and not slow" -x

test-all: .venv/.all lint browser  ## every test
	$(BIN)/python -m pytest -n auto --dist worksteal -rs

bench: .venv/.all  ## redo the tables in docs/ (more than an hour)
	$(BIN)/python benchmarks/quality.py
	$(BIN)/python benchmarks/minimal.py
	$(BIN)/python benchmarks/robust.py
	$(BIN)/python benchmarks/realism.py
	$(BIN)/python benchmarks/forecast.py
	$(BIN)/python benchmarks/steady.py
	$(BIN)/python benchmarks/decisions.py
	$(BIN)/python benchmarks/mixed.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/speed.py --peers
	$(BIN)/python benchmarks/trees.py --peers

audit: .venv/.dev  ## check answers and sentences again from outside, on all tables
	$(BIN)/python benchmarks/audit.py

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# the tests of the page drive a real browser: Debian's, where it may be installed
browser:
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  { echo "Installing chromium for the tests of the page ..."; apt-get update -qq && apt-get install -qq -y chromium >/dev/null; }; } || \
	echo "No chromium here, and it cannot be installed: the tests in a browser are skipped."

clean:
	rm -rf .venv

# torch first and pinned: a bare requirement would fetch gigabytes of CUDA packages
.venv/.base: pyproject.toml constraints.txt
	@echo "Setting up .venv (a minute or two) ..."
	$(PYTHON) -c 'import sys; sys.exit("GRACE needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
	$(PIP) $(TORCH)
	$(PIP) -c constraints.txt -e .
	@touch $@

.venv/.dev: .venv/.base
	$(PIP) -c constraints.txt -e '.[dev]'
	@touch $@

# what only slow tests use
.venv/.all: .venv/.dev
	$(PIP) -c constraints.txt -e '.[dev,slow]'
	@touch $@
