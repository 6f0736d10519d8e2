"""What a run found, put together once. `terminal` prints it: imported apart, for it loads rich."""

from .build import build
from .json_document import to_json
from .markdown import to_markdown
from .model import Report
from .notices import notices

__all__ = ["Report", "build", "notices", "to_json", "to_markdown"]
