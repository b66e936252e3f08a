# Everything is set up on first use, in .venv, and works offline afterwards.
PYTHON  ?= python3.11
# One more than processors: many tests wait, for a clock, a server, a program.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
VENV    := .venv
BIN     := $(VENV)/bin
READY   := $(VENV)/.ready
COMPILED := $(VENV)/.compiled
INTEROP := .venv-interop
SITE    := .venv-site

# What is compiled once is for all processes, or each of those that test would compile all of the tests again.
export PYTHONDONTWRITEBYTECODE :=

# Another Python than that of the environment makes the environment again.
ifneq ($(origin PYTHON),file)
ifneq ($(shell $(BIN)/python -V 2>&1),$(shell $(PYTHON) -V 2>&1))
.PHONY: $(READY)
endif
endif

.PHONY: help demo test lint test-interop test-conformance bench bench-audit fixtures docs site clean
.DEFAULT_GOAL := help

help:            ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## */\t/' | expand -t 18

# Nothing in it holds the name of this folder, which may have characters that setuptools makes nothing of, and may
# change: skillhub is found from where the environment lies, and programs are run as modules, not as scripts. It is
# made elsewhere, for venv refuses a path with a colon, and works wherever it is moved to.
$(READY): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "skillhub needs Python 3.11 or newer; name it with: make PYTHON=python3.12"; exit 2; }
	@echo "setting up $(VENV), once; later runs need no network"
	@made=$$(mktemp -d) && $(PYTHON) -I -m venv "$$made/venv" && rm -rf $(VENV) && mv "$$made/venv" $(VENV) && rmdir "$$made"
	@$(BIN)/python -P -c 'import tomllib; own = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	  print(*own["dependencies"], *own["optional-dependencies"]["test"], sep="\n")' > $(VENV)/requirements.txt
	@$(BIN)/python -I -m pip install --quiet --no-compile --disable-pip-version-check \
	  -r $(VENV)/requirements.txt
	@$(BIN)/python -P -c 'import tomllib; own = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
	  print(*own["server"], *own["audit"], *own["pick"], sep="\n")' > $(VENV)/extras.txt
	@$(BIN)/python -I -m pip install --quiet --no-compile --disable-pip-version-check -r $(VENV)/extras.txt || \
	  echo "the extras server, audit and pick are not to be had here: their tests are skipped"
	@cd $(VENV)/lib/python3*/site-packages && echo ../../../.. > skillhub.pth
	@touch $(READY)

demo: $(READY)   ## install and update skills in a new project; a script answers
	@$(BIN)/python docs/demo.py

# Tests that have changed are compiled here, once, and not by each process that runs tests.
$(COMPILED): $(READY) $(wildcard tests/*.py tests/*/*.py)
	@$(BIN)/python -P -m pytest -q --collect-only >/dev/null 2>&1; touch $@

# They are compiled while mypy runs, which takes one processor. A test that fails runs a second time, with no other
# beside it: if it passes then, it depends on load. That is a bug, but not one of the change that is tested.
test: $(READY)   ## lint, types, the order of imports, tests
	@$(MAKE) --no-print-directory $(COMPILED) & $(MAKE) --no-print-directory lint && wait
	@$(BIN)/python -P -m pytest -q -n $(WORKERS) --dist worksteal -m 'not interop' || { status=$$?; \
	  test $$status -eq 1 || exit $$status; \
	  echo 'the failed tests run again, one after another; mend also those that pass now: they depend on load'; \
	  $(BIN)/python -P -m pytest -v --last-failed --last-failed-no-failures none -m 'not interop'; }

lint: $(READY)   ## ruff, mypy, the order of imports
	@$(BIN)/python -P -m ruff check .
	@$(BIN)/python -P -m ruff format --check .
	@$(BIN)/python -P -m mypy
	@$(BIN)/python -P -c 'from importlinter.cli import lint_imports_command as lint; lint()'

test-interop: $(READY)   ## tests against other tools, which the first run sets up
	@PYTHON='$(PYTHON)' sh tests/interop/setup.sh '$(INTEROP)'
	@SKILLHUB_MODEL_SIGNING="$$PWD/$(INTEROP)/others/bin/model_signing" \
	  SKILLHUB_MOTO_SERVER="$$PWD/$(INTEROP)/others/bin/moto_server" \
	  SKILLHUB_SCHEMATHESIS="$$PWD/$(INTEROP)/others/bin/schemathesis" \
	  SKILLHUB_NPM_SKILLS="$$PWD/$(INTEROP)/npm/node_modules" \
	  SKILLHUB_SKILLS_REF="$$PWD/$(INTEROP)/others/bin/python" \
	  SKILLHUB_INSTALLERS="$$PWD/$(INTEROP)/others/bin" \
	  SKILLHUB_FASTMCP="$$PWD/$(INTEROP)/others/bin/python" \
	  SKILLHUB_REAL_SKILLS="$$PWD/$(INTEROP)/real-skills" \
	  SKILLHUB_GO="$$PWD/$(INTEROP)/others/bin/go" SKILLHUB_GO_SOURCES="$$PWD/$(INTEROP)/go" \
	  SKILLHUB_SARIF_SCHEMA="$$PWD/$(INTEROP)/sarif-schema-2.1.0.json" \
	  $(INTEROP)/ours/bin/python -P -m pytest -q -m interop

test-conformance: $(READY)   ## TUF's conformance suite; needs the program faketime
	@PYTHON='$(PYTHON)' sh tests/conformance/run.sh

bench: $(READY)  ## write docs/performance.md: SHORT=--short PEERS="--npm DIR …"
	@$(BIN)/python tests/bench/run.py --write $(SHORT) $(PEERS)

bench-audit: $(READY)  ## what scanners find in public sets: SETS="--malskills DIR …"
	@$(BIN)/python tests/bench/audit.py --write $(SETS)

fixtures: $(READY)   ## rebuild the embedded registry, byte for byte
	@$(BIN)/python -P -m fixtures.build

docs: $(READY)   ## write the generated pages and the recorded demo again
	@$(BIN)/python docs/build.py
	@$(BIN)/python docs/demo.py --record >/dev/null

$(SITE)/.ready: docs/site/requirements.txt
	@command -v $(PYTHON) >/dev/null || { echo "name a Python with: make PYTHON=python3.12 site"; exit 2; }
	@echo "setting up $(SITE), once; later runs need no network"
	@made=$$(mktemp -d) && $(PYTHON) -I -m venv "$$made/venv" && rm -rf $(SITE) && mv "$$made/venv" $(SITE) && rmdir "$$made"
	@$(SITE)/bin/python -I -m pip install --quiet --disable-pip-version-check -r docs/site/requirements.txt
	@echo '*' > $(SITE)/.gitignore && touch $@

site: $(SITE)/.ready   ## the documentation as a site in build/site, its links checked
	@NO_MKDOCS_2_WARNING=1 $(SITE)/bin/python -P -m mkdocs --quiet build -f docs/site/mkdocs.yml

clean:           ## remove the virtual environments and caches
	rm -rf $(VENV) $(INTEROP) $(SITE) .venv-conformance .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build *.egg-info
