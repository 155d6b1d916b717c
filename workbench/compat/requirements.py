"""Tell Chainer what is installed, without pkg_resources, which setuptools has dropped.

It has the names of pkg_resources that chainer.testing and Chainer's setup.py use.
"""

from importlib.metadata import PackageNotFoundError as DistributionNotFound
from importlib.metadata import distribution as get_distribution
from importlib.metadata import version

__all__ = ["DistributionNotFound", "ResolutionError", "WorkingSet", "get_distribution"]


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
            except DistributionNotFound as error:
                raise ResolutionError(f"{requirement.name} is not installed") from error
            if not requirement.specifier.contains(found, prereleases=True):
                raise ResolutionError(f"{requirement} is required, but {found} is installed")
