"""Replies that are none: refusals, texts without a verdict, texts cut before it, lists that do not fit their blocks.

They keep one promise: no careful reader finds a verdict in them, least of all the contrary of the one that was due.
"""

from .prompt_parser import ReplySpec
from .reply_format import Form

REFUSAL = "I'm sorry, but I can't assist with that request."

_SAYS_NOTHING = (
    "", " \n", "?", "null", "[]", "{}", "```\n```", "It depends on how the question is understood.",
    "The response mentions the place and gives a date.",
    "The answer cannot be determined from the information given.",
)  # fmt: skip

NO_VERDICT = {
    "yesno": (
        *_SAYS_NOTHING, "Maybe.", "Yes and no.", "yes/no", "N/A",
        "<think>\nThe response gives a date, and the reference", '{"answer": ', "Final answer:", "Partially.",
        "Yes\n\nNo",
    ),
    "object": (
        *_SAYS_NOTHING, '{"reasoning": "The response gives the', '{"correct": ',
        '{"reasoning": "A date is given.", "correct": tr',
        '{"reasoning": "It depends on how the question is understood."}',
        '{"reasoning": "It depends.", "correct": null}', '{"reasoning": "It depends.", "correct": "maybe"}',
        '{"correct": true}\n{"correct": false}', '{"correct": true, "correct": false}',
        '```json\n{"reasoning": "A date is given.",\n```', '<think>{"correct": true} would be wrong if',
    ),
    "line": (
        *_SAYS_NOTHING, "The response names a date.\ncorrect=", "The response names a date.\ncorrect=maybe",
        "The response names a date.\ncorrect=true\ncorrect=false",
        "I should set correct=true if the response contains the correct answer.",
        "<think>\nThe response names a date, so correct=true would", '{"correct": ', "Partially.",
    ),
    "documents": (
        *_SAYS_NOTHING, '{"relevance_explanation": "The first sentence names the',
        '{"relevance_explanation": "It names the place.", "all_relevant_sentence_keys": [',
        '{"relevance_explanation": "It names the place.", "overall_supported": tr',
        '{"relevance_explanation": "It depends.", "overall_supported": null}',
        '{"relevance_explanation": "It depends.", "overall_supported": "partially"}',
        '{"overall_supported": true}\n{"overall_supported": false}',
        '```json\n{"relevance_explanation": "It names the place.",\n```',
        '<think>{"overall_supported": true} would be wrong if',
    ),
    "scores": (
        *_SAYS_NOTHING, "N/A", "[", '{"scores": [', "Score:", "Scores: ,",
        "Some points are missing, others are wrong.", "<think>\nThe first answer misses one point, so", "{over}",
        "about {low} or {high}", "-",
    ),
    "choice": (
        *_SAYS_NOTHING, "{first} / {last}", "{first}\n{last}", "<think>\n{first} seems to", '{"choice": ', "Verdict:",
    ),
}  # fmt: skip
"""Malformed replies, by the kind of reply that is due; `documents` is an object with lists of sentence keys."""

CUT = {
    "yesno": "Let us compare the model's response with the reference answer step by step. The response",
    "object": '{"reasoning": "Comparing the response with the reference step by step, the response first',
    "line": "Comparing the response with the reference step by step, the response first",
    "documents": '{"relevance_explanation": "Going through the documents sentence by sentence, the first of them',
    "scores": "Let us count the key technical points that are missing, one answer after the other. The",
    "choice": "Let us compare what was given, point by point, before anything is chosen. The first point",
}
"""Replies that ran into max_tokens before they came to the verdict."""


def pick_malformed(spec: ReplySpec, variant: int) -> str:
    form = spec.form
    texts = NO_VERDICT[_kind(form)]
    text = texts[variant % len(texts)]
    if form.kind == "scores":
        beyond = form.high + 1 if form.scaled else 1000 * form.high
        over = form.separator.join([str(beyond)] * spec.scores)
        return text.replace("{over}", over).replace("{low}", str(form.low)).replace("{high}", str(form.high))
    if form.kind == "choice":
        if len(form.labels) == 1:
            return ""
        return text.replace("{first}", form.labels[0]).replace("{last}", form.labels[-1])
    return text


def truncate(spec: ReplySpec, reply: str) -> str:
    """A reply that stops before the verdict; a list of scores may stop within itself."""
    if spec.scores > 2:
        return reply[: reply.index(spec.form.separator) + 1] if spec.form.separator in reply else CUT["scores"]
    return CUT[_kind(spec.form)]


def miscount(spec: ReplySpec, reply: str, variant: int) -> str:
    """The reply's scores as a list of another length, or under numbers that are not those of the blocks."""
    form, count = spec.form, spec.scores
    parts = [part.strip() for part in reply.split(form.separator)]
    extra = str(form.low + variant % (form.high - form.low + 1))
    place = variant // 16 % count
    longer = [*parts, extra]
    numbered = [f"{number}: {score}" for number, score in enumerate(longer, 1)]
    ways = [form.separator.join(longer), "\n".join(longer), "\n".join(numbered)]
    if count > 1:
        shorter = [*parts[:place], *parts[place + 1 :]]
        ways += [
            form.separator.join(shorter),
            "\n".join(shorter),
            "\n".join([*numbered[:place], *numbered[place + 1 : count]]),
            "\n".join([*numbered[: count - 1], f"{count - 1}: {parts[-1]}"]),
            "\n".join(f"{number}: {score}" for number, score in enumerate(parts)),
            form.separator.join([*parts[:place], "", *parts[place + 1 :]]),
            parts[0],
            f"{form.separator.join(parts[:1])}{form.separator}...",
        ]
    return ways[variant % len(ways)]


def _kind(form: Form) -> str:
    documents = form.schema is not None and "overall_supported" in form.schema.get("properties", {})
    return "documents" if documents else form.kind
