# `make` lists the targets. All of them work in .venv, which is made first where it is missing or out of date.

PYTHON ?= python3
CONTEXT ?=
N ?= 10000

PACKAGE := resnet50v1-5-fp32-training
VENV := .venv/.made

SHELL := /bin/sh
export PATH := $(CURDIR)/.venv/bin:$(PATH)

# The tests start the command thousands of times: its modules are compiled once, whatever the caller's habits are.
unexport PYTHONDONTWRITEBYTECODE

# A kubectl spends a fifth of its time on collecting garbage, and there are thousands of them; the Go compiler spends an
# eighth. Memory is what there is more of.
export GOGC ?= 400

# The tests' own kubectl before any that the machine has, so that they mean the same everywhere.
WITH_KUBECTL = kubectl="$$(python -m tests.kubectls)" && PATH="$${kubectl%/*}:$$PATH"
# KUBECONFIG of the test cluster, unless CONTEXT names one of the user's own contexts.
WITH_CLUSTER = $(if $(CONTEXT),MLPACK_E2E_CONTEXT="$(CONTEXT)")

.PHONY: help setup package test lint types fmt golden quickstart docs kubectls matrix cluster cluster-down e2e bench fuzz check lock

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-14s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV) ## make .venv with everything that the other targets use

$(VENV): requirements-dev.lock pyproject.toml tools/make-venv
	@tools/make-venv $(PYTHON)
	@touch $@

package: setup ## build the resnet50 fp32 package, show what is in it and what to do next
	@mlpack build resnet50 --precision fp32 --mode training --force
	@tools/show-package $(PACKAGE)

test: setup ## run the tests that need neither a cluster nor every kubectl
	$(WITH_KUBECTL) python -m pytest -m "not e2e and not matrix" --numprocesses auto

lint: setup ## check the sources: ruff, and shellcheck for scripts
	ruff check
	ruff format --check
	shellcheck .ci/run tools/make-venv tools/show-package

types: setup ## check the types
	mypy --cache-dir "$${XDG_CACHE_HOME:-$$HOME/.cache}/mlpack/mypy"

fmt: setup ## format the sources, and mend what ruff can
	ruff check --fix
	ruff format

golden: setup ## write the expected outputs of the golden tests anew; read the difference before you commit it
	$(WITH_KUBECTL) python -m pytest -m "not e2e and not matrix" --update-goldens

quickstart: setup ## build quickstart/ anew
	mlpack build resnet50 --precision fp32 --mode training --format dir --force --destination build
	rm -rf quickstart && cp -R build/$(PACKAGE)/quickstart quickstart

docs: setup ## write docs/spec.md anew
	python -m tools.spec_reference > docs/spec.md.new && mv docs/spec.md.new docs/spec.md

kubectls: setup ## fetch kubectl in every version from 1.22 to 1.36, which the tests else do one by one
	@python -m tests.kubectls --all

matrix: setup ## render every overlay with every kubectl from 1.22 to 1.36
	python -m pytest -m matrix

cluster: setup ## bring up a real Kubernetes here, and print its kubeconfig's path
	@$(WITH_KUBECTL) python -m tests.cluster up

cluster-down: setup ## take it away again
	@python -m tests.cluster down

e2e: setup ## run packages on the cluster of `make cluster`, or on that of CONTEXT=name
	@$(WITH_KUBECTL) && export PATH $(WITH_CLUSTER) && ended=0 && \
	{ python -m pytest tests/e2e -m "not alone" --numprocesses 5 --dist worksteal || ended=$$?; } && \
	{ python -m pytest tests/e2e -m alone || ended=$$?; } && exit $$ended

bench: setup ## measure what building costs, in time and memory
	python -m benchmarks

fuzz: setup ## throw N=10000 damaged specs and packages at the command
	python -m tests.fuzz -n $(N)

check: lint types test matrix e2e ## everything that CI demands

lock: setup ## resolve the dependencies anew; UPGRADE=--upgrade takes newer releases of all
	python -m pip --quiet install uv
	uv --no-config pip compile pyproject.toml --group dev --extra fast --universal --python-version 3.11 \
		--generate-hashes --no-annotate --custom-compile-command "make lock" $(UPGRADE) \
		--quiet --output-file requirements-dev.lock
