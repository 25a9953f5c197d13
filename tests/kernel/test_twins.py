import subprocess
import sys

import pytest


def test_each_twin_is_what_it_says(kernel, request):
    compiled = request.node.callspec.params["kernel"] == "compiled"
    assert compiled == kernel.COMPILED
    for name in (
        "arrow",
        "batches",
        "checksum",
        "drafts",
        "indexes",
        "records",
        "requests",
        "runs",
        "varints",
    ):
        module = getattr(kernel, name)
        assert module.__file__.endswith(".py") != compiled


@pytest.mark.parametrize(("value", "pure"), [("1", True), ("", None), ("0", None)])
def test_the_environment_forces_the_sources(value, pure):
    code = "import tidelog.kernel as k; print(k.COMPILED)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"TIDELOG_PURE": value, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    if pure:
        assert run.stdout.strip() == "False"
    else:
        assert run.stdout.strip() in ("True", "False")


def test_the_compiled_kernel_does_not_import_the_crc_wheel(kernel):
    if not kernel.COMPILED:
        pytest.skip("the interpreted twin needs it")
    code = "import sys, tidelog.kernel as k; k.crc32c(b'x'); print('google_crc32c' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "False"
