"""The sentence that asks for a verdict's strict form and nothing else, by the kind of reading that a judge declares."""

from .reply_forms import AnyReads, ChoiceReads, ObjectReads, ScoresReads


def strict_form_request(reads: AnyReads) -> str:
    """What a prompt about one item ends with, so that its reply is read strictly."""
    if isinstance(reads, ObjectReads):
        kind = "array" if reads.json_schema["type"] == "array" else "object"
        return f"Answer with only the JSON {kind}, and nothing before or behind it."
    if isinstance(reads, ChoiceReads):
        return f"Answer with exactly one of these labels, and nothing else: {', '.join(reads.labels)}."
    if isinstance(reads, ScoresReads):
        scale = f"from {reads.low:g} to {reads.high:g}"
        if reads.names is None or len(reads.names) == 1:
            return f"Answer with only the number {scale}, and nothing else."
        names = ", ".join(reads.names)
        return f"Answer with only the numbers {scale} for {names}, in this order: commas between them, and no blanks."
    return "Answer with exactly one word: yes or no."
