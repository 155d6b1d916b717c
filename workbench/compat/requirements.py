"""Check for chainer.testing whether a requirement is installed, without pkg_resources.

It has the two names of pkg_resources that chainer.testing uses, so that one import is replaced.
"""

from importlib.metadata import PackageNotFoundError, version


class ResolutionError(Exception):
    """A requirement is not installed, or in another version."""


class WorkingSet:
    """The distributions of this environment."""

    def require(self, *requirements: str) -> None:
        """Check requirements such as ``'numpy>=1.10'``.

        Raises:
            ResolutionError: One is missing or has another version.
        """
        from packaging.requirements import Requirement

        for requirement in map(Requirement, requirements):
            try:
                found = version(requirement.name)
            except PackageNotFoundError as error:
                raise ResolutionError(f"{requirement.name} is not installed") from error
            if not requirement.specifier.contains(found, prereleases=True):
                raise ResolutionError(f"{requirement} is required, but {found} is installed")
