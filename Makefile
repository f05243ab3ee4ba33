# make case1   sets everything up in .venv and runs the main job
# make test    sets everything up in .venv and runs the tests, but the slow ones: 5 minutes
# make test-slow runs the slow ones
# make test-arviz1 runs what depends on ArviZ with its first major version
# make docs    sets everything up in .venv and builds the documentation in build/site/
# make wheel   builds the wheel and checks it, with the base requirements alone, in build/base/
# make figures runs the study's experiments, going on where they stopped, and draws all figures
# Without --no-compile, pip compiles what no command imports: half of the installation's time.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
METADATA := setup.cfg pyproject.toml constraints.txt

.PHONY: case1 case2 figures test test-slow test-arviz1 lint benchmark docs wheel clean

case1 case2: .venv/main.stamp
	$(BIN)/python experiments/$@.py $(ARGS)

figures: .venv/test.stamp
	$(BIN)/python experiments/study.py $(ARGS)

test: .venv/test.stamp
	$(BIN)/python -m pytest -m "not slow" $(ARGS)

test-slow: .venv/test.stamp
	$(BIN)/python -m pytest -m slow $(ARGS)

# ArviZ 1 asks for Python 3.12, but this version runs on 3.11.
ARVIZ1 := arviz==1.3.0 arviz-base==1.3.1 arviz-plots==1.3.2 arviz-stats==1.3.3
OF_ARVIZ := core/test_importance.py core/test_inference_data.py answer/test_draws.py

test-arviz1: build/arviz1.stamp
	PYTHONPATH=build/arviz1 $(BIN)/python -m pytest $(addprefix tests/,$(OF_ARVIZ)) --numprocesses 0

build/arviz1.stamp: .venv/test.stamp
	rm -rf build/arviz1
	$(BIN)/python -m pip install --quiet --no-deps --ignore-requires-python --target build/arviz1 $(ARVIZ1)
	touch $@

lint: .venv/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/docs.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict $(ARGS)

benchmark: .venv/main.stamp
	$(BIN)/python benchmarks/search_step.py $(ARGS)

wheel: | .venv/bin/python
	rm -rf build/wheel build/base
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/wheel .
	$(PYTHON) -m venv build/base
	build/base/bin/python -m pip install --quiet --no-compile --constraint constraints.txt build/wheel/*.whl
	build/base/bin/python .ci/check_wheel.py

clean:
	rm -rf .venv build *.egg-info

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/main.stamp: $(METADATA) | .venv/bin/python
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[cli]'
	touch $@

.venv/test.stamp: $(METADATA) | .venv/bin/python
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[test]'
	touch $@ .venv/main.stamp

.venv/docs.stamp: $(METADATA) | .venv/bin/python
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[cli,docs]'
	touch $@ .venv/main.stamp
