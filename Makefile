# What can be done with this repository. `make help` lists it.

VENV  := .venv
BIN   := $(VENV)/bin
STAMP := $(VENV)/.installed
UP_STAMP := $(VENV)/.installed-for-up
UP_EXTRAS := pipeline,demo
EXTRAS := pipeline,demo,pyiceberg,spark,s3,clients,lance,delta,dev
# Packages whose bounds contradict the others, installed without what they ask for.
APART  := tests/clients/without-dependencies.txt
# Python 3.11 or newer; the Iceberg runtime for Spark comes as a package for 3.11 and 3.12 only, so these first.
PYTHON ?= $(shell .ci/find-python)
JOBS   ?= 2
ARGS   ?=
# The engines of `make test-engines`: folders of tests/engines.
ENGINE ?=
ENGINES = $(if $(ENGINE),$(ENGINE:%=tests/engines/%),tests/engines)
# The tests of `make test-only`: files and folders.
TESTS  ?=
BENCHMARKS ?= start load commit writers workloads churn memory manifests delta lance purge events table_assets vending
PIP     = $(BIN)/python .ci/pip-progress
SHORT  := -m "not scale and not engines"

.DEFAULT_GOAL := help
.PHONY: help install up wheel test test-only test-scale test-engines compose-smoke check format bench lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

install: $(STAMP) ## Install everything that tests and development need into .venv, at the versions of constraints.txt

$(VENV)/pyvenv.cfg:
	@test -n "$(PYTHON)" || { echo "Floecat needs Python 3.11 or newer; none was found on the PATH." >&2; exit 1; }
	@echo "Creating $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "Python's venv module is missing; on Debian: apt-get install python3-venv" >&2; exit 1; }

$(STAMP): pyproject.toml constraints.txt $(APART) | $(VENV)/pyvenv.cfg
	@echo "Installing Floecat and all that its tests need into $(VENV): 3.6 GB, up to half an hour on a slow machine"
	@$(PIP) install --constraint constraints.txt --editable '.[$(EXTRAS)]'
	@$(PIP) install --no-deps --requirement $(APART)
	@touch $@ $(UP_STAMP)

$(UP_STAMP): pyproject.toml constraints.txt | $(VENV)/pyvenv.cfg
	@echo "Installing Floecat, Dagster and PyIceberg into $(VENV): 0.7 GB, up to ten minutes on a slow machine"
	@$(PIP) install --constraint constraints.txt --editable '.[$(UP_EXTRAS)]'
	@touch $@

up: $(UP_STAMP) ## Start everything: REST on 9200, Dagster UI on 3000, demo data (ARGS="--help" shows options)
	@$(BIN)/floecat up $(ARGS)

wheel: | $(VENV)/pyvenv.cfg ## Build the wheel into dist/
	@$(PIP) wheel --no-deps --wheel-dir dist .

compose-smoke: ## Try the Compose deployment with Trino, Polaris and Keycloak; needs Docker (COMPOSE_SMOKE_MODES="trino" chooses)
	@deploy/smoke/run.sh

check: $(STAMP) ## Format, lint, types, import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## Format the code and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: check ## Run the checks and all tests but the long ones (ARGS="tests/unit -k name" chooses)
	@.ci/install-programs $(if $(ARGS),$(SHORT) $(ARGS))
	$(BIN)/python -m pytest $(SHORT) -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-only: $(STAMP) ## Run chosen tests without the checks (TESTS="tests/unit/store" ARGS="-k name")
	@test -n "$(TESTS)" || { echo 'Which tests? As in: make test-only TESTS=tests/unit/store' >&2; exit 2; }
	@.ci/install-programs $(SHORT) $(TESTS) $(ARGS)
	@$(BIN)/python -m pytest $(SHORT) $(TESTS) $(ARGS)

test-scale: $(STAMP) ## Run the long tests
	@.ci/install-programs
	@.ci/find-java >/dev/null
	JAVA_HOME=$$(.ci/find-java) $(BIN)/python -m pytest -m scale $(ARGS)
	CONTRACT_STORE=postgresql CONTRACT_STORAGE=s3 \
	  $(BIN)/python -m pytest tests/contract -n $(JOBS) --dist loadfile $(ARGS)

test-engines: $(STAMP) ## Run flows of real engines: Trino, Spark 4.1, Flink, Rust, Go, Keycloak, oidc-provider, OPA (ENGINE="trino flink" chooses); needs JDKs, Maven, Go, Rust, Node
	@.ci/install-programs -m engines $(ENGINES) $(ARGS)
	$(BIN)/python -m pytest -m engines $(ENGINES) $(ARGS)

bench: $(STAMP) ## Measure the service on this machine, a line of JSON each (BENCHMARKS="start load" chooses; "planning statistics" take long)
	@for name in $(BENCHMARKS); do $(BIN)/python -m benchmarks.$$name $(ARGS) || exit 1; done

lock: ## Write constraints.txt anew, from the newest versions that fit together
	@echo "Resolving in a virtual environment of its own"
	@rm -rf build/lock && $(PYTHON) -m venv build/lock
	@build/lock/bin/python -m pip --disable-pip-version-check install --quiet --editable '.[$(EXTRAS)]'
	@{ echo '# Versions that were installed and tested together. `make lock` writes this file.'; \
	   build/lock/bin/python -m pip --disable-pip-version-check freeze --exclude-editable; } > constraints.txt
	@rm -rf build/lock && git --no-pager diff --stat -- constraints.txt

clean: ## Remove what the tools leave behind; .venv and .floecat stay
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
