"""What a run found, put together once and shown on the terminal, as Markdown or as JSON."""

from __future__ import annotations

from .build import build
from .document import to_json
from .markdown import to_markdown
from .record import Report
from .terminal import to_terminal

__all__ = ["Report", "build", "to_json", "to_markdown", "to_terminal"]
