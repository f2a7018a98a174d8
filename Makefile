# What a newcomer runs: `make demo`, then `make test`. Everything else is below.

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
WORKSPACE ?= examples/workspace
Q ?=
SECONDS ?= 60

.PHONY: demo install test lint types check-long fuzz bench audit clean

demo: $(VENV)/.runtime
	@$(BIN)/python examples/demo.py "$(WORKSPACE)" $(if $(Q),"$(Q)")

install: $(VENV)/.runtime

# Development mode without its allocator, which costs a fifth of the time; check-long has it.
test: lint types
	PYTHONMALLOC=pymalloc $(BIN)/python -X dev -m pytest -n 4 --maxschedchunk 1 -m "not long"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

check-long: $(VENV)/.long
	$(BIN)/python -X dev -m pytest -m long

fuzz: $(VENV)/.dev
	PYTHONPATH=tests $(BIN)/python -m fuzz $(TARGET) --seconds $(SECONDS) $(if $(INPUT),--input $(INPUT)) $(if $(KEEP),--keep)

bench: $(VENV)/.dev
	$(BIN)/python -m bench

audit: $(VENV)/audit/.done
	$(VENV)/audit/bin/pip-audit --strict --disable-pip --no-deps --progress-spinner off \
		$(foreach file,$(sort $(wildcard requirements/*.txt)),-r $(file))

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .fuzz

$(VENV)/.runtime: requirements/build.txt requirements/runtime.txt pyproject.toml client/pyproject.toml
	@test -n "$(PYTHON)" || { echo "memoryd needs Python 3.11 or newer; name one with PYTHON=..." >&2; exit 1; }
	@echo "Installing memoryd into $(VENV) ..."
	@$(PYTHON) -m venv $(VENV) || { echo "The venv module is missing (on Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; }
	@$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements/build.txt -r requirements/runtime.txt
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e ./client -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements/dev.txt
	@$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements/dev.txt
	@touch $@

$(VENV)/.long: $(VENV)/.dev requirements/long.txt
	@$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements/long.txt
	@touch $@

$(VENV)/audit/.done: $(VENV)/.runtime requirements/audit.txt
	@$(BIN)/python -m venv $(VENV)/audit
	@$(VENV)/audit/bin/python -m pip install -q --disable-pip-version-check -r requirements/audit.txt
	@touch $@
