# Every target sets up what it needs; `make setup` does nothing when nothing changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.PHONY: help setup demo image pin-image test test-long pictures test-cluster test-promises control-plane soak seeded-bugs mutants check lint types \
	layers format upgrade sbom audit release clean

help: ## Show this help
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Dovetail needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@echo "Making .venv with everything in it (once; it takes a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(STAMP)

setup: $(STAMP) ## Make .venv with everything in it

demo: $(STAMP) ## Play an evening rush in virtual time and write build/evening-rush.html
	@mkdir -p build
	$(BIN)/dovetail simulate examples/evening-rush --report build/evening-rush.html

test: $(STAMP) ## Run the tests (under 10 minutes, no network)
	$(BIN)/pytest

test-long: $(STAMP) ## Run the tests that take long: a week of waves, plans with more work, gaps to the bound (7 minutes)
	$(BIN)/pytest -m long

pictures: $(STAMP) ## Take the pictures of pages and of top in docs/images anew (needs chromium)
	$(BIN)/pytest -n0 --screenshots tests/simulate/test_pages.py tests/simulate/test_pictures.py

test-cluster: $(STAMP) ## Run the tests on a real Kubernetes control plane (needs Go; the first time builds it, 7 minutes)
	$(BIN)/python tests/cluster/controlplane/build.py
	$(BIN)/pytest -n2 --dist loadfile tests/cluster

test-promises: $(STAMP) ## Play SEEDS=20 runs under fire on that control plane, from FIRST=1 on; a minute each
	$(BIN)/python tests/cluster/controlplane/build.py
	DOVETAIL_SEEDS=$(FIRST)-$$(($(FIRST) + $(SEEDS) - 1)) $(BIN)/pytest -n0 -s tests/cluster/test_promises_on_a_server.py

control-plane: $(STAMP) ## Start that control plane and leave it running until Ctrl-C
	$(BIN)/python tests/cluster/controlplane/start.py

SEEDS ?= 20
FIRST ?= 1
SCENARIO ?= examples/faults
soak: $(STAMP) ## Play SEEDS=20 seeds of SCENARIO=examples/faults, from FIRST=1 on; every promise must hold
	$(BIN)/python -m dovetail.testing.soak --scenario $(SCENARIO) --first $(FIRST) --seeds $(SEEDS)

seeded-bugs: $(STAMP) ## Plant each of twenty bugs; every one must be caught within 50 seeds
	$(BIN)/python tests/seeded_bugs/run.py --jobs 2

ONLY ?= dovetail.
mutants: $(STAMP) ## Change decisions in small wrong ways (in modules ONLY=dovetail.disrupt.); tests must notice 95 %
	$(BIN)/python tests/mutants/run.py --only $(ONLY) --show

check: lint types layers ## Lint, types, floors

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports

format: $(STAMP) ## Let ruff format and fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

upgrade: $(STAMP) ## Install the newest version of every package; write constraints.txt and the image's hashes
	$(BIN)/python -m pip install --disable-pip-version-check --upgrade --upgrade-strategy eager --editable '.[dev]'
	@head -1 constraints.txt >$(VENV)/versions
	@$(BIN)/python -m pip --disable-pip-version-check freeze --exclude-editable >>$(VENV)/versions
	@mv $(VENV)/versions constraints.txt
	$(BIN)/python -m scripts.supply_chain pin
	@touch $(STAMP)

image: $(STAMP) ## Write build/image: the image as an OCI layout, without a container engine or root
	$(BIN)/python -m scripts.image build

pin-image: $(STAMP) ## Take the newest of Debian's packages for the image (on Debian)
	$(BIN)/python -m scripts.image pin

sbom: $(STAMP) ## Write build/dovetail.cdx.json: what the image is made of (CycloneDX 1.5)
	@mkdir -p build
	$(BIN)/python -m scripts.supply_chain sbom >build/dovetail.cdx.json

audit: $(STAMP) ## Ask the package index for withdrawn releases and known vulnerabilities in the image
	$(BIN)/python -m scripts.supply_chain audit

release: $(STAMP) ## Write dist/: wheel, SBOM, notes, SHA256SUMS, signed with KEY=path (an SSH key)
	@test -n "$(KEY)" || { echo "Which key signs? make release KEY=path (ssh-keygen -t ed25519 makes one)"; exit 2; }
	rm -rf dist
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	$(BIN)/python -m scripts.supply_chain release --key "$(KEY)"

clean: ## Remove what the other targets made
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
