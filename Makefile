# Everything is set up on first use, in .venv, and works offline afterwards.
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
WORKERS ?= auto

.PHONY: demo test lint test-interop bench fixtures clean help

help:            ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## */\t/' | expand -t 16

$(READY): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "skillhub needs Python 3.11 or newer; name it with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@echo "setting up $(VENV) (once)…"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[all,test]'
	@touch $(READY)

demo: $(READY)   ## install a signed skill in a new empty project, with the questions answered by a script
	@$(BIN)/python docs/demo.py

test: $(READY) lint   ## lint, types, import floors, tests
	@$(BIN)/python -m pytest -q -n $(WORKERS) -m 'not interop'

lint: $(READY)   ## ruff, mypy, import floors
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .
	@$(BIN)/python -m mypy
	@$(BIN)/lint-imports

test-interop: $(READY)   ## tests against other tools, each of a heavy install (set up on first use)
	@sh tests/interop/setup.sh
	@$(BIN)/python -m pytest -q -m interop

bench: $(READY)  ## measured ratios against a floor in the same run
	@$(BIN)/python tests/bench/run.py

fixtures: $(READY)   ## rebuild the embedded registry, byte for byte
	@$(BIN)/python -m fixtures.build

clean:           ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build *.egg-info
