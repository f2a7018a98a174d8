# What a newcomer runs: `make demo`, then `make test`. Everything else is below.

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
WORKSPACE ?= examples/workspace
Q ?=
SECONDS ?= 60
# Nothing is installed but the files whose hashes are in requirements/, and nothing is compiled.
INSTALL := -m pip install -q --disable-pip-version-check --require-hashes --only-binary :all:
LOCK := $(VENV)/lock/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes \
	--fork-strategy fewest --no-annotate --custom-compile-command "make lock" \
	--no-emit-package colorama

.PHONY: demo install test lint types check-long check-agents fuzz bench audit lock date-words release-check clean

demo: $(VENV)/.runtime
	@$(BIN)/python examples/demo.py "$(WORKSPACE)" $(if $(Q),"$(Q)")

install: $(VENV)/.runtime

# Development mode without its allocator, which costs a fifth of the time; check-long has it.
test: $(VENV)/.dev
	@$(MAKE) --no-print-directory -j3 lint types $(VENV)/.compiled
	PYTHONMALLOC=pymalloc $(BIN)/python -X dev -m pytest -n 4 --maxschedchunk 1 -m "not long and not agents"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

check-long: $(VENV)/.long
	$(BIN)/python -X dev -m pytest -m long
	$(BIN)/python -X dev -m pytest -m "hypothesis and not long and not agents" --hypothesis-profile=thorough

# Real agents, about 3 GB of them with QMD, with a scripted model on the loopback address and no key.
check-agents: $(VENV)/.dev $(VENV)/agents/.done
	$(BIN)/python -X dev -m pytest -m agents tests/agents tests/daemon/test_real_qmd.py

fuzz: $(VENV)/.dev
	PYTHONPATH=tests $(BIN)/python -m fuzz $(TARGET) --seconds $(SECONDS) $(if $(INPUT),--input $(INPUT)) $(if $(KEEP),--keep)

bench: $(VENV)/.dev
	$(BIN)/python -m bench

audit: $(VENV)/audit/.done
	$(VENV)/audit/bin/pip-audit --strict --disable-pip --require-hashes --progress-spinner off \
		$(foreach file,$(sort $(wildcard requirements/*.txt)),-r $(file))

# OPTIONS="--upgrade-package NAME" or OPTIONS=--upgrade; otherwise the pins stay as they are.
lock: $(VENV)/lock/.done
	$(LOCK) $(OPTIONS) pyproject.toml client/pyproject.toml --extra uvloop \
		--no-emit-package memoryd-client -o requirements/runtime.txt
	for group in build gguf lancedb dev long; do \
		$(LOCK) $(OPTIONS) --group $$group -c requirements/runtime.txt \
			-o requirements/$$group.txt || exit; done
	for group in audit lock mcp mcp-old release sdks server tables; do \
		$(LOCK) $(OPTIONS) --group $$group -o requirements/$$group.txt || exit; done

date-words: $(VENV)/tables/.done
	PYTHONPATH=. $(VENV)/tables/bin/python tools/date_words.py

# The environment of the bill of materials has no pip, so that it lists what runs and nothing else.
release-check: $(VENV)/.runtime $(VENV)/release/.done
	@$(BIN)/python -m bench report --check
	@rm -rf dist $(VENV)/rebuilt $(VENV)/released
	@for folder in dist $(VENV)/rebuilt; do for project in . client; do \
		(cd $$project && "$(CURDIR)/$(BIN)/hatchling" build -d "$(CURDIR)/$$folder") || exit; done; done
	@diff -r dist $(VENV)/rebuilt
	@$(PYTHON) -m venv --without-pip $(VENV)/released
	@PIP_PYTHON=$(VENV)/released/bin/python $(BIN)/python $(INSTALL) -r requirements/runtime.txt
	@PIP_PYTHON=$(VENV)/released/bin/python $(BIN)/python -m pip install -q --disable-pip-version-check \
		--no-deps --no-index --find-links dist memoryd memoryd-client
	@$(VENV)/released/bin/memoryd --version && $(VENV)/released/bin/memctl --version
	@$(VENV)/release/bin/cyclonedx-py environment --output-reproducible --validate --spec-version 1.6 \
		--pyproject pyproject.toml --output-file dist/memoryd.cdx.json $(VENV)/released/bin/python
	@$(BIN)/python tests/release.py dist

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .fuzz

$(VENV)/.runtime: requirements/build.txt requirements/runtime.txt pyproject.toml client/pyproject.toml
	@test -n "$(PYTHON)" || { echo "memoryd needs Python 3.11 or newer; name one with PYTHON=..." >&2; exit 1; }
	@echo "Installing memoryd into $(VENV) ..."
	@$(PYTHON) -m venv $(VENV) || { echo "The venv module is missing (on Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; }
	@$(BIN)/python $(INSTALL) -r requirements/build.txt -r requirements/runtime.txt
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e ./client -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements/dev.txt
	@$(BIN)/python $(INSTALL) -r requirements/dev.txt
	@touch $@

# Otherwise each of the four workers compiles all tests itself.
$(VENV)/.compiled: $(VENV)/.dev
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --collect-only -qq > /dev/null || :
	@touch $@

$(VENV)/.long: $(VENV)/.dev requirements/long.txt
	@$(BIN)/python $(INSTALL) -r requirements/long.txt
	@touch $@

# Of all packages, only Claude Code needs its script, which puts its program into place.
$(VENV)/agents/.done: tests/agents/package.json tests/agents/package-lock.json $(VENV)/.runtime
	@mkdir -p $(VENV)/agents
	@cp tests/agents/package.json tests/agents/package-lock.json $(VENV)/agents
	@cd $(VENV)/agents && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error \
		&& node node_modules/@anthropic-ai/claude-code/install.cjs
	@touch $@

$(VENV)/audit/.done $(VENV)/lock/.done $(VENV)/release/.done $(VENV)/tables/.done: $(VENV)/%/.done: requirements/%.txt $(VENV)/.runtime
	@$(BIN)/python -m venv $(VENV)/$*
	@$(VENV)/$*/bin/python $(INSTALL) -r requirements/$*.txt
	@touch $@
