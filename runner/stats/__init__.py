"""Counts that add up, and what they come to: scores with intervals, agreement with people, differences. Pure."""
