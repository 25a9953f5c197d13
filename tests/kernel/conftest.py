"""Every kernel test runs over both twins: the compiled modules and the very same sources, interpreted."""

import importlib
import os
import sys
from types import ModuleType

import pytest

import tidelog.kernel


def load_pure() -> ModuleType:
    """The kernel as `TIDELOG_PURE=1` imports it, beside the one that is in use."""
    names = [name for name in sys.modules if name.split(".")[:2] == ["tidelog", "kernel"]]
    kept = {name: sys.modules.pop(name) for name in names}
    finders, pure = list(sys.meta_path), os.environ.get("TIDELOG_PURE")
    os.environ["TIDELOG_PURE"] = "1"
    del sys.modules[
        "tidelog"
    ].kernel  # or `import tidelog.kernel.x as x` would find the other twin's x
    try:
        return importlib.import_module("tidelog.kernel")
    finally:
        for name in [name for name in sys.modules if name.split(".")[:2] == ["tidelog", "kernel"]]:
            del sys.modules[name]
        sys.modules.update(kept)
        sys.modules["tidelog"].kernel = kept["tidelog.kernel"]
        sys.meta_path[:] = finders
        if pure is None:
            del os.environ["TIDELOG_PURE"]
        else:
            os.environ["TIDELOG_PURE"] = pure


@pytest.fixture(scope="session", params=["compiled", "pure"])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    if request.param == "pure":
        return load_pure()
    if not tidelog.kernel.COMPILED:
        pytest.skip("the kernel is not compiled here")
    return tidelog.kernel
