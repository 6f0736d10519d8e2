"""One run from arguments to report, and looking at runs.

What each name brings (polars, pyarrow) is imported at its first use: the command line does not pay for it at start.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .dry_run import preview
    from .run_request import RunRequest
    from .run_status import open_run, status_of
    from .session import Plan, Session
else:
    _PLACES = {
        "preview": ".dry_run",
        "RunRequest": ".run_request",
        "open_run": ".run_status",
        "status_of": ".run_status",
        "Plan": ".session",
        "Session": ".session",
    }

    def __getattr__(name: str) -> Any:
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_PLACES[name], __name__), name)


__all__ = ["Plan", "RunRequest", "Session", "open_run", "preview", "status_of"]
