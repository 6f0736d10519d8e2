"""Counts that add up, and what follows from them: rates, means, intervals, agreement, comparisons."""
