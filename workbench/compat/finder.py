"""Load Chainer's modules with their replacements, and leave every other import alone.

Runs at the start of every interpreter, so it imports nothing that the interpreter has not loaded.
"""

import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import PathFinder, SourceFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType

CHAINER = "7.8.1"
PYTHON_BELOW = (3, 14)


class CompatError(ImportError):
    """The installed Chainer cannot be adapted to this environment."""


class Loader(SourceFileLoader):
    """Load one source file of Chainer with its replacements, neither reading nor writing a .pyc."""

    def get_source(self, fullname: str) -> str:
        """Return the text with its replacements, or raise CompatError."""
        from workbench.compat.table import TABLE, RewriteError, rewrite

        text = self.get_data(self.path).decode("utf-8").replace("\r\n", "\n")
        try:
            return rewrite(text, TABLE.get(fullname, ()))
        except RewriteError as error:
            raise CompatError(
                f"{fullname} of chainer {_version_beside(self.path, fullname)} differs from the "
                f"published one ({error}), so it cannot be adapted; reinstall it with: "
                f"pip install --force-reinstall --no-deps chainer=={CHAINER}",
                name=fullname,
                path=self.path,
            ) from error

    def get_code(self, fullname: str) -> "CodeType":
        """Load one source file of Chainer with its replacements; neither read nor write a .pyc."""
        if fullname == "chainer":
            problem = incompatibility(_version_beside(self.path, fullname))
            if problem:
                raise CompatError(problem, name=fullname, path=self.path)
        source = self.get_source(fullname)
        _show_in_tracebacks(self.path, source)
        code: CodeType = self.source_to_code(source, self.path)
        return code

    def exec_module(self, module: "ModuleType") -> None:
        """Run the module and note that it has its replacements."""
        super().exec_module(module)
        patched.append(module.__name__)


class Finder:
    """The import hook: finds the modules that have replacements, before the path finder does."""

    def find_spec(
        self,
        fullname: str,
        path: "Sequence[str] | None" = None,
        target: "ModuleType | None" = None,
    ) -> ModuleSpec | None:
        """Return a spec for Chainer's modules; None leaves the search to the other finders."""
        if fullname == "pkg_resources":
            return _find_pkg_resources(path, target)
        if not fullname.startswith("chainer"):
            return None
        from workbench.compat.table import TABLE

        if fullname != "chainer" and fullname not in TABLE:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            return spec
        if not isinstance(spec.loader, SourceFileLoader):
            raise CompatError(
                f"{fullname} at {spec.origin} is not a plain source file, so it cannot be adapted; "
                f"reinstall it with: pip install --force-reinstall --no-deps chainer=={CHAINER}",
                name=fullname,
                path=spec.origin,
            )
        spec.loader = Loader(fullname, spec.origin)
        return spec

    def __repr__(self) -> str:
        return f"<Finder for chainer {CHAINER}, {len(patched)} modules loaded>"


def _find_pkg_resources(
    path: "Sequence[str] | None", target: "ModuleType | None"
) -> ModuleSpec | None:
    """Let Chainer's ``setup.py`` find the part of ``pkg_resources`` that it needs.

    setuptools 81 has dropped the module. pip builds Chainer in a process that runs through our
    ``.pth`` as each Python of the environment does, with Chainer's source as its folder.
    """
    import os

    found = PathFinder.find_spec("pkg_resources", path, target)
    if found is not None or not os.path.exists("chainer/_version.py"):
        return found
    ours = __file__.removesuffix("finder.py") + "requirements.py"
    return ModuleSpec("pkg_resources", SourceFileLoader("pkg_resources", ours), origin=ours)


finder = Finder()
patched: list[str] = []


def install() -> None:
    """Register the import hook, once.

    Forgets what a failed ``import chainer`` left behind, so that the next one starts from nothing.

    Raises:
        CompatError: Chainer was imported before, without its replacements.
    """
    if finder in sys.meta_path:
        return
    chainer = sys.modules.get("chainer")
    if chainer is None:
        for name in [name for name in sys.modules if name.startswith(("chainer.", "chainermn"))]:
            del sys.modules[name]
    elif not isinstance(chainer.__spec__ and chainer.__spec__.loader, Loader):
        raise CompatError(
            "chainer was imported before workbench.compat, so it runs without its replacements; "
            "restart Python (or the kernel) and put `import workbench.compat` first.",
            name="chainer",
        )
    sys.meta_path.insert(0, finder)


def uninstall() -> None:
    """Remove the import hook; modules that are loaded keep their replacements."""
    if finder in sys.meta_path:
        sys.meta_path.remove(finder)


def incompatibility(version: str, python: tuple[int, ...] = sys.version_info[:2]) -> str | None:
    """Return why this Chainer cannot run on this Python, with the remedy, or None if it can."""
    if python >= PYTHON_BELOW:
        return (
            f"chainer does not run on Python {python[0]}.{python[1]}; "
            "use Python 3.11, 3.12 or 3.13 for this environment."
        )
    if version != CHAINER:
        return (
            f"chainer {version} is installed, but workbench.compat knows only chainer {CHAINER}; "
            f"install that one (pip install chainer=={CHAINER}), "
            "or call workbench.compat.uninstall() before importing chainer."
        )
    return None


def _version_beside(path: str, fullname: str) -> str:
    """Return the version of the chainer that a module belongs to, without importing it."""
    site = path
    for _ in range(fullname.count(".") + (2 if path.endswith("__init__.py") else 1)):
        site = site.rpartition("\\" if "\\" in site else "/")[0]
    try:
        with open(f"{site}/chainer/_version.py", encoding="utf-8") as file:
            for line in file:
                name, _, value = line.partition("=")
                if name.strip() == "__version__":
                    return value.strip().strip("'\"")
    except OSError:
        pass
    return "of unknown version"


def _show_in_tracebacks(path: str, source: str) -> None:
    """Let tracebacks and inspect.getsource quote the text that runs, under its real file name."""
    import linecache

    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
