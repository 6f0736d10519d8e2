"""Counts that add up, and what they come to: scores with intervals, agreement with people, differences. Pure."""

from __future__ import annotations

from .agreement import agreement
from .counting import add, count
from .estimators import Metric, Rate
from .metrics import results
from .summaries import ScoreSummary

__all__ = ["Metric", "Rate", "ScoreSummary", "add", "agreement", "count", "results"]
