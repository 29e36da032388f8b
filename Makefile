# Every target sets up what it needs. Nothing is fetched once `setup` has run.
PYTHON ?= python3
BIN := .venv/bin
export OPENBLAS_NUM_THREADS := 1
export DO_NOT_TRACK := 1
export PREFECT_SERVER_ANALYTICS_ENABLED := false
# Where it is set, every test worker and every process of a test would compile all modules anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup flower demo kernels test e2e stories validity bench lint docs lock bill known-faults clean

setup: .setup-done

.setup-done: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("ksdp needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/python -m pip check
	touch .setup-done

# Flower's environment: its bounds and Prefect's exclude each other (docs/decisions/0002-dependencies.md).
flower: .flower/.done

.flower/.done: examples/flower/requirements.lock
	$(PYTHON) -m venv .flower
	.flower/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $<
	touch $@

# Numba does not see that a kernel of another file has changed.
kernels: setup
	$(BIN)/python tools/kernels.py

demo: kernels
	$(BIN)/ksdp demo --store demo-audit

test: kernels lint
	$(BIN)/python -m pytest -n auto --dist worksteal --ignore tests/stories --ignore tests/validity

# Real processes and a browser: what CI runs beside `make test`.
e2e: kernels
	$(BIN)/python -m pytest -m "e2e and not validity" -n 2 --dist worksteal tests/stories/test_review.py tests/stories/test_dask_losses.py tests/storage/reviews

# Every story with real processes, servers and workers; half an hour.
stories: kernels
	$(BIN)/python -m pytest -m "e2e and not validity" -n 2 --dist worksteal tests/stories tests/flows tests/extras tests/storage/reviews

validity: kernels
	$(BIN)/python -m pytest -m validity

lint: setup
	$(BIN)/ruff check .
	$(BIN)/python tools/plain_english.py
	$(BIN)/mypy

bench: kernels
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks bounds

# The documentation as a site: site/README.html. Nothing is fetched.
docs: setup
	$(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --quiet docs site

# Needs `uv`; the lock names versions and hashes, never a registry.
lock:
	uv pip compile --universal --python-version 3.11 --extra dev --generate-hashes --no-header --output-file requirements.lock pyproject.toml
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --output-file examples/flower/requirements.lock examples/flower/app/pyproject.toml

# What ksdp is made of: a bill of materials (CycloneDX) with licences, from what is installed.
bill: setup
	$(BIN)/python tools/bill.py docs/sbom.json

# Known faults of what the lock names. pip-audit asks a database on the network, and is no dependency of ours; a package
# that the database does not answer for is an error, and not one without faults.
known-faults: setup
	@$(BIN)/python -c 'import pip_audit' 2>/dev/null || { echo "Install pip-audit into .venv first: $(BIN)/python -m pip install pip-audit"; exit 1; }
	$(BIN)/python -m pip_audit --strict --require-hashes --disable-pip --requirement requirements.lock

clean:
	rm -rf .venv .flower .setup-done build dist site *.egg-info demo-audit .pytest_cache .mypy_cache .ruff_cache
	find src tests -name __pycache__ -prune -exec rm -rf {} +
