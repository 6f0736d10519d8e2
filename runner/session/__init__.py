"""One run from arguments to report, and looking at runs."""
