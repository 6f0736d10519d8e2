"""The command line: words, options, exit statuses."""

from .app import app, main

__all__ = ["app", "main"]
