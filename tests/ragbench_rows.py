"""RAGBench's real rows for tests: the request that a row must become, and a reply that says what its labels say.

Nothing here imports what is tested: the prompt is filled in by splitting its file, the reply is built from the keys.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROMPT = ROOT.parent / "shared" / "prompts" / "ragbench.txt"
SHARES = {
    "relevance": "relevance_score",
    "utilization": "utilization_score",
    "completeness": "completeness_score",
    "adherence": "adherence_score",
}

Row = dict[str, Any]


def rows_of(data: Path) -> list[Row]:
    """The published rows."""
    text = (data / "ragbench" / "rows.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.strip().split("\n")]


def prompt_of(row: Row) -> str:
    """The published prompt about a row. Split before anything is put in: what a row says is not filled in again."""
    if not PROMPT.exists():
        pytest.skip(f"{PROMPT} is not there")
    head, rest = PROMPT.read_bytes().decode().split("{documents}")
    middle, rest = rest.split("{question}")
    last, tail = rest.split("{answer}")
    sentences = [f"{key}: {text}" for document in row["documents_sentences"] for key, text in document]
    single = [part.replace("{{", "{").replace("}}", "}") for part in (head, middle, last, tail)]
    question: str = row["question"]
    response: str = row["response"]
    return single[0] + "\n".join(sentences) + single[1] + question + single[2] + response + single[3]


def reply_of(row: Row) -> Row:
    """The object that a judge would give who says what the row's labels say."""
    cited = dict.fromkeys(row["all_relevant_sentence_keys"] + row["all_utilized_sentence_keys"])
    supported = row["unsupported_response_sentence_keys"] == []
    return {
        "relevance_explanation": row["relevance_explanation"],
        "all_relevant_sentence_keys": row["all_relevant_sentence_keys"],
        "overall_supported_explanation": row["overall_supported_explanation"],
        "overall_supported": supported,
        "sentence_support_information": [
            {"sentence_key": key, "is_supported": supported, "explanation": f'{{["{key}"]}} says so.'} for key in cited
        ],
        "all_utilized_sentence_keys": row["all_utilized_sentence_keys"],
    }


def scores_of(row: Row) -> dict[str, float]:
    """The row's stored scores."""
    return {name: float(row[column]) for name, column in SHARES.items()}
