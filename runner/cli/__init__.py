"""The command line: words, options, exit statuses."""

from .app import main

__all__ = ["main"]
