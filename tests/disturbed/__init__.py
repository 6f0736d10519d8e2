"""A real job that is disturbed: what is done to it, drawn from a seed; how it is done; and what must hold afterwards.

`scripts/chaos.py` runs many of these, the tests of tests/chaos a few.
"""
