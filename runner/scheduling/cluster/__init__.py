"""Workers on a Ray cluster. Nothing outside this folder imports ray, or sees an error of it."""

import os

from .pool import RayPool

# Read by Ray when it starts.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

__all__ = ["RayPool"]
