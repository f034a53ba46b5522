"""TensorFlow is imported when something of it is used. DLIO imports it for a profiler that no test runs, which takes two
of the three and a half seconds of CPU that its start costs. What runs TensorFlow's loader gets it in full.

As a module of the programs that ranks run, or as a sitecustomize of DLIO's own. The true start: tests/dlio/cli.py.
"""
import importlib
import importlib.util
import sys
import types


class Later(types.ModuleType):
    """Stands for it until then."""

    def __getattr__(self, name):
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        if sys.modules.get("tensorflow") is self:
            del sys.modules["tensorflow"]
        return getattr(importlib.import_module("tensorflow"), name)


spec = importlib.util.find_spec("tensorflow")
if spec:
    sys.modules["tensorflow"] = Later("tensorflow")
    sys.modules["tensorflow"].__spec__ = spec  # dftracer 2 looks for it
