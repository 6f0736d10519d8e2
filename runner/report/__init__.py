"""What a run found, put together once and shown on the terminal, as Markdown or as JSON."""

from __future__ import annotations

from .build import build
from .json_document import to_json
from .markdown import to_markdown
from .model import Report
from .notices import notices
from .terminal import to_terminal

__all__ = ["Report", "build", "notices", "to_json", "to_markdown", "to_terminal"]
