"""The run's directory and SQLite file, and its single writer.

`run_directory` is imported by its module only: it brings the config, which the aggregator's process does not need.
"""

from .aggregator import Aggregator, AggregatorHandle, LocalAggregator
from .ledger import Ledger, ShardRow, Spend
from .revision_diff import RevisionDiff
from .revisions import Revision

__all__ = [
    "Aggregator",
    "AggregatorHandle",
    "Ledger",
    "LocalAggregator",
    "Revision",
    "RevisionDiff",
    "ShardRow",
    "Spend",
]
