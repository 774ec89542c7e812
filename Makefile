# Each target does its own set-up. Only Python (3.11 or newer, for the versions in constraints.txt) has to be there.
PYTHON ?= python3
VENV := .venv
RUNTIME_VENV := .venv-runtime
LEROBOT_VENV := .venv-lerobot
BIN := $(VENV)/bin
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check -c constraints.txt
STAMP := $(VENV)/.installed
RUNTIME_STAMP := $(RUNTIME_VENV)/.installed
LEROBOT_STAMP := $(LEROBOT_VENV)/.installed

# What a package on a robot needs must pass where torch is not even installed.
RUNTIME_TESTS := tests/spec tests/package tests/processors tests/runtime tests/deploy tests/docs/test_deploy.py tests/docs/test_verify.py tests/verify tests/cli tests/attacks tests/examples
RUNTIME_TESTS += tests/environment/test_session.py tests/interop/exploy tests/interop/policy_package tests/test_plugins.py
RUNTIME_TESTS += tests/view/test_html.py tests/view/test_page.py tests/view/test_page_serving.py tests/docs/test_view.py

# Two processes on two cores; tests/conftest.py says which tests stay together.
PYTEST := -m pytest -n auto
# These need compilers and an emulator: tools/setup_system.sh says which.
NATIVE_TESTS := tests/native

TORCH_TESTS := --ignore $(NATIVE_TESTS) --elsewhere "$(RUNTIME_TESTS)"
THOROUGH := --thorough --hypothesis-profile=explore -m "all_tasks or not all_tasks"

LEROBOT_TESTS := tests/with_lerobot

.PHONY: help setup setup-runtime setup-lerobot setup-system demo test test-all test-lerobot test-browser test-native check format bench bench-lerobot docs build clean

help:  ## List the targets.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

setup: $(STAMP)  ## Make the development environment in .venv.

setup-runtime: $(RUNTIME_STAMP)  ## Make the environment without torch in .venv-runtime.

setup-lerobot: $(LEROBOT_STAMP)  ## Make an environment with LeRobot in .venv-lerobot, for test-lerobot.

setup-system:  ## Install what the tests need from the system (Debian): compilers, an emulator, a browser.
	bash tools/setup_system.sh

demo: $(STAMP)  ## A trained Go1: exported from its simulator, verified, walking without torch, filmed, on one page.
	$(BIN)/python examples/first_package.py demo/first
	$(BIN)/python examples/walk.py demo/go1

test: $(STAMP) $(RUNTIME_STAMP)  ## Run every test; those of the runtime in an environment without torch.
	$(BIN)/python $(PYTEST) $(TORCH_TESTS)
	ASHORE_NO_TORCH=1 $(RUNTIME_VENV)/bin/python $(PYTEST) $(RUNTIME_TESTS)

test-all: $(STAMP) $(RUNTIME_STAMP)  ## Run them cold, with every task of mjlab and every case on ONNX, on other examples.
	ASHORE_EXPORT_CACHE=off $(BIN)/python $(PYTEST) --ignore $(NATIVE_TESTS) $(THOROUGH)
	ASHORE_NO_TORCH=1 $(RUNTIME_VENV)/bin/python $(PYTEST) $(RUNTIME_TESTS) $(THOROUGH)
	$(BIN)/python tools/proven.py --note

test-lerobot: $(LEROBOT_STAMP) $(RUNTIME_STAMP)  ## Run the tests that need LeRobot; nothing is downloaded.
	HF_HUB_OFFLINE=1 ASHORE_RUNTIME_PYTHON=$(CURDIR)/$(RUNTIME_VENV)/bin/python \
		$(LEROBOT_VENV)/bin/python $(PYTEST) $(LEROBOT_TESTS)

test-browser: $(STAMP)  ## Run the tests of pages in Chromium, which has to be there (Debian: chromium, chromium-driver).
	$(BIN)/python -m pytest tests/browser

test-native: $(STAMP) $(RUNTIME_STAMP)  ## Run the tests of compiled policies; they fail where a compiler or the emulator is missing.
	bash tools/setup_system.sh --check
	$(BIN)/python $(PYTEST) $(NATIVE_TESTS)

check: $(STAMP)  ## Check format, lint and types.
	! git grep -nE '^(<{7}|>{7}) '  # what a merge left behind
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python

format: $(STAMP)  ## Format and fix what can be fixed.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)  ## Measure, print ratios, and write the table in README and docs; takes about an hour.
	$(BIN)/python bench/table.py
	$(BIN)/python bench/step.py
	$(BIN)/python bench/environment_step.py
	$(BIN)/python bench/native.py
	$(BIN)/python bench/native_cpp.py
	$(BIN)/python bench/soak.py
	$(BIN)/python bench/recording.py
	$(BIN)/python bench/export.py
	$(BIN)/python bench/simulator_export.py
	$(BIN)/python bench/actor_export.py

bench-lerobot: $(LEROBOT_STAMP)  ## Measure chunks of LeRobot's policies.
	$(LEROBOT_VENV)/bin/python bench/chunks.py

docs: $(STAMP)  ## Write what is generated, and build the pages into site/.
	$(BIN)/python tools/write_docs.py
	$(BIN)/zensical build --strict

build: $(STAMP)  ## Build wheel and sdist, and try each in an empty environment without torch.
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	bash tools/try_distributions.sh $(PYTHON)

clean:  ## Remove everything that was made.
	rm -rf $(VENV) $(RUNTIME_VENV) $(LEROBOT_VENV) dist build site demo .cache .pytest_cache .ruff_cache .hypothesis

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP_INSTALL) torch
	$(BIN)/python $(PIP_INSTALL) -e ".[dev]"
	touch $@

$(RUNTIME_STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(RUNTIME_VENV)
	$(RUNTIME_VENV)/bin/python $(PIP_INSTALL) -e ".[language,leapp,openvino,video]" pytest pytest-xdist hypothesis onnx
	touch $@

$(LEROBOT_STAMP): pyproject.toml constraints-lerobot.txt tools/setup_lerobot.sh tools/torchvision_operators.py
	bash tools/setup_lerobot.sh $(PYTHON) $(LEROBOT_VENV)
	touch $@
