"""libshard's tests. tests/run.py runs them by area; drivers are started as `python -m tests.AREA`."""
