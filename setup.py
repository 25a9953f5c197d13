"""Builds the kernel: every module of `tidelog.kernel` that has a `.pxd` beside it, compiled by Cython.

The extensions are optional: without a C compiler the install goes on and the `.py` files are used as they are.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError, ExecError, PlatformError

KERNEL = Path("src/tidelog/kernel")
NEVER_COMPILED = {"primitives"}  # its .pxd holds the C twins that the others use
SANITIZE = os.environ.get("TIDELOG_SANITIZE", "").split()
"""What `make sanitize` compiles with: every access outside of a buffer, and every overflow of a signed number, ends the process."""


def extensions() -> list[Extension]:
    """What to compile; nothing where Cython is missing."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    names = sorted(path.stem for path in KERNEL.glob("*.pxd") if path.stem not in NEVER_COMPILED)
    modules = [
        Extension(
            f"tidelog.kernel.{name}",
            [str(KERNEL / f"{name}.py")],
            include_dirs=[str(KERNEL)],
            depends=[str(KERNEL / "primitives.h"), str(KERNEL / "primitives.pxd")],
            extra_compile_args=SANITIZE or ["-O3", "-g0"],
            extra_link_args=SANITIZE,
            optional=True,
        )
        for name in names
    ]
    return cythonize(  # type: ignore[no-any-return]
        modules,
        build_dir="build/cython",
        include_path=["src"],
        compiler_directives={
            "language_level": "3",
            # The annotations are for readers and mypy; the types of C stand in the .pxd alone.
            "annotation_typing": False,
            "boundscheck": True,
            "wraparound": False,
            "cdivision": True,
        },
    )


class BuildAllOrNone(build_ext):
    """Builds every extension, or goes on without any: the compiled modules need each other's C functions."""

    def build_extensions(self) -> None:
        """Build; a compiler that is missing or fails is told of, and is no error."""
        try:
            with ThreadPoolExecutor() as pool:
                list(pool.map(self.build_extension, self.extensions))
        except (CCompilerError, ExecError, PlatformError, OSError) as error:
            self.warn(f"the kernel could not be compiled and will be interpreted, slower: {error}")
            for extension in self.extensions:
                Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            self.extensions.clear()  # nothing is there to be copied or packed

    def copy_file(self, source, target, *rest, **options):  # type: ignore[no-untyped-def]
        """Replace `target` at once: a process that has the old library mapped must not see it change."""
        half = f"{target}.tmp"
        copied = super().copy_file(source, half, *rest, **options)
        os.replace(half, target)
        return target, copied[1]


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildAllOrNone})
