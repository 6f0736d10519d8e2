"""One trial from request to outcome: sending, probes, reformat, ladder, outbox."""
