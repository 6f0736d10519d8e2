"""The columns of a run's results and attempts, as frames, published files and exports have them. Only ever added to."""

from __future__ import annotations

from typing import Any

import polars as pl

TIME = pl.Datetime("us", "UTC")
SCORES = pl.List(pl.Struct({"key": pl.String, "value": pl.Float64}))
LABELS = pl.List(pl.Struct({"key": pl.String, "value": pl.String}))
"""Labels of all types share one map; a value that is no string stands as JSON writes it (`true`, `3.5`)."""

COLUMNS: dict[str, Any] = {
    "key": pl.String,
    "run": pl.String,
    "revision": pl.Int64,
    "item_id": pl.String,
    "question_id": pl.String,
    "system": pl.String,
    "group": pl.String,
    "judge": pl.String,
    "judge_fingerprint": pl.String,
    "template": pl.String,
    "model": pl.String,
    "model_id": pl.String,
    "served_model": pl.String,
    "system_fingerprint": pl.String,
    "repeat": pl.Int64,
    "state": pl.String,
    "reason": pl.String,
    "verdict": pl.String,
    "scores": SCORES,
    "labels": LABELS,
    "answer_text": pl.String,
    "reasoning_text": pl.String,
    "finish_reason": pl.String,
    "stage": pl.String,
    "notes": pl.List(pl.String),
    "parser_version": pl.String,
    "structured": pl.String,
    "request_id": pl.String,
    "batch_size": pl.Int64,
    "batch_position": pl.Int64,
    "bisect_depth": pl.Int64,
    "official_reading": pl.Boolean,
    "attempts": pl.Int64,
    "input_tokens": pl.Float64,
    "cached_tokens": pl.Float64,
    "output_tokens": pl.Float64,
    "reasoning_tokens": pl.Float64,
    "cost_usd": pl.Float64,
    "latency_s": pl.Float64,
    "injection_suspect": pl.Boolean,
    "is_control": pl.Boolean,
    "judged_at": TIME,
    "worker": pl.String,
    "slices": pl.List(pl.String),
    "injection_signs": pl.List(pl.String),
    "attempt_id": pl.Int64,
}
"""Column → type of every results frame, of `results/*.parquet` and of exports; `state` is null while not judged."""

ATTEMPT_COLUMNS: dict[str, Any] = {
    "request_id": pl.String,
    "keys": pl.List(pl.String),
    "judge": pl.String,
    "model": pl.String,
    "model_id": pl.String,
    "served_model": pl.String,
    "system_fingerprint": pl.String,
    "stage": pl.String,
    "try": pl.Int64,
    "state": pl.String,
    "error": pl.String,
    "status": pl.Int64,
    "finish_reason": pl.String,
    "answer_text": pl.String,
    "reasoning_text": pl.String,
    "refusal_text": pl.String,
    "input_tokens": pl.Float64,
    "cached_tokens": pl.Float64,
    "output_tokens": pl.Float64,
    "reasoning_tokens": pl.Float64,
    "cost_usd": pl.Float64,
    "latency_s": pl.Float64,
    "retry_after_s": pl.Float64,
    "late_duplicate": pl.Boolean,
    "sent_at": TIME,
    "worker": pl.String,
    "reading": pl.String,
    "parser_version": pl.String,
    "attempt_id": pl.Int64,
}
"""Column → type of `attempts/*.parquet`: one row per request as made."""
