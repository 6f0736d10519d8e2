"""Result frames, Parquet, exports, the mirror and restoring from it."""

from .export import Selection, export
from .parquet_writer import publish_if_changed, publish_results
from .publisher import Publisher

__all__ = ["Publisher", "Selection", "export", "publish_if_changed", "publish_results"]
