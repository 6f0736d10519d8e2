"""One provider account: HTTP, errors, limits, leases, circuit breaker, retry policy."""
