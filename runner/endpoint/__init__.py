"""One provider account: HTTP, errors, limits, leases, circuit breaker, retry policy.

By module only: `client` (openai), `rate_limiter` (aiolimiter).
"""

from .circuit_breaker import CircuitBreaker
from .health_monitor import HealthMonitor
from .judge_model import JudgeModel, StructuredModes, judge_models
from .leases import LeaseAllocator
from .response import Completion, EndpointError
from .retry_policy import ErrorKind, decide

__all__ = [
    "CircuitBreaker",
    "Completion",
    "EndpointError",
    "ErrorKind",
    "HealthMonitor",
    "JudgeModel",
    "LeaseAllocator",
    "StructuredModes",
    "decide",
    "judge_models",
]
