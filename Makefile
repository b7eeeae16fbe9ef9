# `make` lists the targets. All of them use .venv, which is created first if it is missing or out of date: `make package`
# with what mlpack itself needs, the others with everything.

PYTHON ?= python3
CONTEXT ?=
N ?= 10000
SEED ?=
KEY ?=

PACKAGE := resnet50v1-5-fp32-training
BASE := .venv/.base
VENV := .venv/.made
COMPILED := packager/builder/compiled_templates.py

SHELL := /bin/sh
export PATH := $(CURDIR)/.venv/bin:$(PATH)

# A relative path in XDG_CACHE_HOME is ignored (XDG Base Directory Specification).
CACHE := $(or $(filter /%,$(XDG_CACHE_HOME)),$(HOME)/.cache)/mlpack

# The tests start the command thousands of times, so its modules must be compiled only once.
unexport PYTHONDONTWRITEBYTECODE

# The tests start thousands of kubectls, and each spends a fifth of its time on garbage collection; the Go compiler spends
# an eighth. Use more memory to save that time.
export GOGC ?= 400

# The tests use their own kubectl, not the machine's, so that they check the same everywhere.
WITH_KUBECTL = kubectl="$$(python -m tests.kubectls)" && PATH="$${kubectl%/*}:$$PATH"
# The tests use the test cluster, unless CONTEXT names one of the user's own contexts.
WITH_CLUSTER = $(if $(CONTEXT),MLPACK_E2E_CONTEXT="$(CONTEXT)")
WITH_SEED = $(if $(SEED),--seed "$(SEED)")
# The tests that only `make e2e-all` runs. A variable of this name in the environment has no effect.
AND_NOT := and not thorough

.PHONY: help setup package tools test test-all lint types fmt golden quickstart sessions docs pictures kubectls matrix matrix-all bare cluster cluster-down e2e e2e-all registries gitops imagevolumes bench fuzz requests mutations check release-check release fixtures site lock

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9 -]+:.*## / { printf "%-14s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV) $(COMPILED) ## create .venv with everything that the other targets need

$(BASE): requirements.lock pyproject.toml hatch_build.py tools/make-venv
	@tools/make-venv $(PYTHON) requirements.lock
	@touch $@

$(VENV): $(BASE) requirements-dev.lock
	@tools/make-venv $(PYTHON) requirements-dev.lock
	@touch $@

$(COMPILED): hatch_build.py packager/builder/templating.py $(shell find packager/builder/templates packager/workloads/*/templates -type f) | $(BASE)
	@python hatch_build.py && touch $@

package: $(BASE) $(COMPILED) ## build the resnet50 fp32 package, and show the next steps
	@mlpack build resnet50 --precision fp32 --mode training --force
	@echo 'mlpack itself is in .venv/bin: `. .venv/bin/activate` puts it on the PATH' >&2

tools: setup ## as root on Debian, install the programs that `make test-all` needs
	@python -m tests.tools install

# A folder that is ignored is not even imported.
PYTEST := python -m pytest -q --no-header --ignore tests/e2e --numprocesses auto

test: setup ## run the tests that need nothing else: about 3 minutes on two cores
	@echo "make test: about 3 minutes on two cores" >&2
	@$(WITH_KUBECTL) tools/in-memory $(PYTEST) -m "not thorough and not matrix and not release"

test-all: setup ## run all tests that need no cluster: about 8 minutes on two cores
	@echo "make test-all: about 8 minutes on two cores; \`make tools\` installs the programs that it needs" >&2
	@$(WITH_KUBECTL) tools/in-memory $(PYTEST) -m "not matrix and not release"

lint: setup ## check the code with ruff and shellcheck, and the words
	ruff check
	ruff format --check
	python -m tools.check_words
	shellcheck .ci/run tools/in-memory tools/make-venv

types: setup ## check the types with mypy
	mypy --cache-dir "$(CACHE)/mypy$(CURDIR)"

fmt: setup ## format the code, and fix what ruff can fix
	ruff check --fix
	ruff format

golden: setup ## update the expected outputs of the golden tests; read the diff before you commit it
	$(WITH_KUBECTL) python -m pytest --ignore tests/e2e -m golden_test --update-goldens

quickstart: setup ## build quickstart/ again
	mlpack build resnet50 --precision fp32 --mode training --format dir --force --destination build
	rm -rf quickstart && cp -R build/$(PACKAGE)/quickstart quickstart

pictures: setup ## take the pictures of docs/service/page.md and README.md again
	$(WITH_KUBECTL) python -m tools.terminal_picture > docs/pictures/terminal.svg.new && mv docs/pictures/terminal.svg.new docs/pictures/terminal.svg
	MLPACK_PICTURES=1 python -m pytest tests/service/page/test_page.py -k "pictures or compared"

sessions: setup ## write what the sessions in docs/ print now into these documents; read the diff
	$(WITH_KUBECTL) MLPACK_SESSIONS=1 python -m pytest tests/test_docs_sessions.py

docs: setup ## update docs/spec.md, docs/options.md, docs/commands.md, docs/api.md and the list in docs/security.md
	python -m tools.spec_reference > docs/spec.md.new && mv docs/spec.md.new docs/spec.md
	python -m tools.option_reference > docs/options.md.new && mv docs/options.md.new docs/options.md
	python -m tools.command_reference > docs/commands.md.new && mv docs/commands.md.new docs/commands.md
	python -m tools.api_reference > docs/api.md.new && mv docs/api.md.new docs/api.md
	python -m tools.allowed_fields > docs/security.md.new && mv docs/security.md.new docs/security.md

kubectls: setup ## download kubectl 1.30 to 1.37 now; otherwise the tests do it when needed
	@python -m tests.kubectls --all

matrix: setup ## render every overlay with the oldest kubectl, the newest and one between
	tools/in-memory python -m pytest tests/test_matrix.py -m matrix

matrix-all: setup ## render every overlay with every kubectl
	KUBECTLS=all tools/in-memory python -m pytest tests/test_matrix.py -m matrix

bare: setup ## as root, run `make package` and `make test` on a bare Debian 12, as a user who can install nothing
	@python -m tests.bare user make package test

cluster: setup ## start a real Kubernetes on this machine, and print the path of its kubeconfig
	@$(WITH_KUBECTL) python -m tests.testbed up

cluster-down: setup ## stop and remove it
	@python -m tests.testbed down

e2e: setup ## run packages of each kind on the cluster of `make cluster`, or on the cluster of CONTEXT=name
	@$(WITH_KUBECTL) && export PATH $(WITH_CLUSTER) && ended=0 && \
	{ python -m pytest tests/e2e -m "not alone $(AND_NOT)" --numprocesses 3 --dist worksteal --durations 20 || ended=$$?; } && \
	{ python -m pytest tests/e2e -m "alone $(AND_NOT)" --durations 20 || ended=$$?; } && exit $$ended

e2e-all: AND_NOT :=
e2e-all: e2e ## run all tests there, with every model and option: before a release, or when the code that reads a cluster changes

registries: setup ## test with real registries and cosign, which are built from their Go modules and cached
	@$(WITH_KUBECTL) python -m tests.registries && python -m tests.cosign

bench: setup ## measure the time and memory of builds
	python -m benchmarks

gitops: setup ## let controllers of Flux, which are built from their Go modules and cached, run packages on the test cluster
	@$(WITH_KUBECTL) python -m tests.gitops

imagevolumes: setup ## run packages from image volumes on a cluster of its own, with a containerd that is built and cached
	@$(WITH_KUBECTL) python -m tests.imagevolumes

fuzz: setup ## try N=10000 damaged archives, packages and answers of registries; SEED=x makes the same again
	python -m tests.fuzz archives -n $(N) $(WITH_SEED)
	python -m tests.fuzz packages registries -n $$(($(N) / 10)) $(WITH_SEED) # each takes ten times as long

requests: setup ## send N=10000 generated requests to the REST API; each answer must be as its OpenAPI document says
	python -m tests.service.requests -n $(N) $(WITH_SEED)

mutations: setup ## make ten of the 60 mistakes of tests/mutations, by turns, each of which the tests must catch
	@$(WITH_KUBECTL) python -m tests.mutations --turn "$$(git rev-list --count HEAD)" --of 6 \
		--marker "not thorough and not matrix and not release"

check: lint types test-all matrix e2e ## run what CI runs, but for the bare system

# Each of these asks what CI asks of fewer combinations, or of programs of others that are built from their sources.
release-check: lint types matrix-all fuzz requests registries e2e-all gitops imagevolumes ## before a release, as root: about 3 hours on two cores
	$(WITH_KUBECTL) tools/in-memory $(PYTEST) -m "not matrix"
	python -m tests.bare root make tools test-all

site: setup ## make a static site of docs/, with search, in build/site
	python -m tools.site

release: setup ## write the files of a release to build/release: wheel, source archive, zipapp, SBOM; KEY=FILE signs them
	python -m tools.release $(if $(KEY),--sign-key "$(KEY)")

fixtures: setup ## keep packages and a database of this version in tests/releases, for the tests of later versions
	python -m tests.released

lock: setup ## update the lock files of the checkout and of the images; UPGRADE=--upgrade upgrades all dependencies
	uv --no-config pip compile pyproject.toml --group dev --extra sign --extra service --extra oidc --extra postgres \
		--universal --python-version 3.11 \
		--generate-hashes --no-annotate --custom-compile-command "make lock" $(UPGRADE) \
		--quiet --output-file requirements-dev.lock
	uv --no-config pip compile pyproject.toml --group install \
		--universal --python-version 3.11 --constraint requirements-dev.lock \
		--generate-hashes --no-annotate --custom-compile-command "make lock" \
		--quiet --output-file requirements.lock
	uv --no-config pip compile pyproject.toml --extra service --extra oidc --extra postgres \
		--universal --python-version 3.11 --constraint requirements-dev.lock \
		--generate-hashes --no-annotate --custom-compile-command "make lock" \
		--quiet --output-file deploy/server/requirements.txt
	uv --no-config pip compile pyproject.toml --extra sign \
		--universal --python-version 3.11 --constraint requirements-dev.lock \
		--generate-hashes --no-annotate --custom-compile-command "make lock" \
		--quiet --output-file deploy/cli/requirements.txt
