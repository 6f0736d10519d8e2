"""One trial from request to outcome: sending, probes, reformat, ladder, outbox.

By module only, for they reach openai: `worker`, `trial`, `account`, `probes`, `reformat`.
"""

from .request import JudgeRequest, outcomes_of, reading_of

__all__ = ["JudgeRequest", "outcomes_of", "reading_of"]
