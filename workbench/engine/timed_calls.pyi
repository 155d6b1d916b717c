"""The compiled module of native/timed_calls.c; call_timing.py says what each part does."""

from collections.abc import Callable
from typing import Any

from workbench.engine.timing.call_timing import PythonActivity, PythonCallCount, PythonTotal

SOURCES: str

class Activity(PythonActivity): ...
class CallCount(PythonCallCount): ...
class Total(PythonTotal): ...

class _Call:
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class TimedCall(_Call):
    def __init__(
        self,
        original: Callable[..., Any],
        name: str,
        activity: PythonActivity,
        main_thread: int,
        counter: str = "",
        before: Callable[[Any], None] | None = None,
    ) -> None: ...

class Stopwatch(_Call):
    def __init__(
        self, original: Callable[..., Any], total: PythonTotal, activity: PythonActivity = ...
    ) -> None: ...

class Observed(_Call):
    def __init__(
        self,
        original: Callable[..., Any],
        observe: Callable[..., Any],
        activity: PythonActivity,
    ) -> None: ...
