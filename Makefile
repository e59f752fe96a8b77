# The README's two commands; each makes its own environment first.
.PHONY: demo test test-deep lock

PYTHON_RUN = .venv/bin/python
# A run is many processes: each would compile this repository anew.
unexport PYTHONDONTWRITEBYTECODE

demo:
	@.ci/environment
	@$(PYTHON_RUN) -m examples.census $(ARGS)

test:
	@.ci/environment
	@$(PYTHON_RUN) -m tests.run

test-deep:
	@.ci/environment
	@$(PYTHON_RUN) -m tests.run --deep

# Needs uv: resolves pyproject.toml anew for every supported platform.
lock:
	uv pip compile --quiet --universal --python-version 3.12 --generate-hashes --group dev \
		--custom-compile-command "make lock" pyproject.toml --output-file requirements.lock
