"""Items: where they come from, how files are read, mapped, checked and staged.

What is rarely needed is imported from its module: `column_profile`, `in_memory`, `item_builder`, `controls`.
"""

from .files import RowError
from .sampling import Sample, SampleSummary
from .sources import input_signature, item_sources, reference_sources
from .stage import stage
from .staged_items import Staged, load_staged

__all__ = [
    "RowError",
    "Sample",
    "SampleSummary",
    "Staged",
    "input_signature",
    "item_sources",
    "load_staged",
    "reference_sources",
    "stage",
]
