"""Whether a label was given by people or by a model: as the config says, else by what its name or column is called."""

from __future__ import annotations

import re

from runner.labels import Label

_PEOPLE = re.compile(r"human|expert|people|person|manual|crowd|worker|turker|volunteer|student|clinician|physician")
_ANYWHERE = re.compile(
    r"gpt|claude|gemini|gemma|llama|mistral|mixtral|qwen|deepseek|davinci|openai|anthropic|trulens|ragas"
)
"""Wherever they stand in a name."""
_FAMILY = re.compile(
    r"llms?|slm|lm|ai|models?|auto|grok|palm|cohere|command|phi|yi|falcon|vicuna|alpaca|wizardlm|(?:chat)?glm|ernie|kimi"
    r"|moonshot|hunyuan|doubao|minimax|nova|sonnet|opus|haiku|nemotron|granite|olmo|dbrx|jamba|solar|internlm|baichuan"
    r"|prometheus|judgelm|pandalm|deepeval|g?eval|geval|hhem|vectara|lynx|patronus|galileo|langsmith|promptfoo|alignscore"
    r"|minicheck|factscore|bertscore|bleurt|unieval|selfcheck\w*|o[1-9]|r1|machine|automat\w+"
    r"|(?:llm|auto)(?:s|as|grad|rat|eval|judg|scor|label|annot|mark|check|verif|assess|critic)\w*"
)
"""Whole words: models, families of models and programs that judge by one."""
_JUDGES = frozenset(["judge"])
"""A model too, unless numbered as annotators are: judge_a, judge 2."""
_ANSWER = re.compile(r"(?:answer|response|output|prediction|completion|generation)s?|reply")
_SAYS = frozenset(["is", "was", "are", "were", "does", "did", "has"])
"""In `is_model_answer_correct` and `model_was_right` the model is what was judged."""
_BREAKS = (
    re.compile(r"(LLMs?|GPT)(?=[a-z])"),
    re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"),
)
_WORD = re.compile(r"[a-z]+[0-9]*|[0-9]+")


def is_model_label(name: str, label: Label) -> bool:
    """Whether a model gave the label."""
    if label.by is not None:
        return label.by == "model"
    return any(map(names_model, (name, label.field)))


def names_model(name: str) -> bool:
    """Whether a label that is called so is more likely a model's verdict than a person's."""
    broken = _BREAKS[1].sub("_", _BREAKS[0].sub(r"\1_", name)).lower()
    if _PEOPLE.search(broken):
        return False
    words = _WORD.findall(broken)
    return any(_is_models(words, place) for place in range(len(words)))


def _is_models(words: list[str], place: int) -> bool:
    word, before, after = words[place], words[:place], words[place + 1 :]
    if word in _JUDGES:
        return not after or (len(after[0]) > 1 and not after[0].isdigit())
    if not (_ANYWHERE.search(word) or _FAMILY.fullmatch(word) or _FAMILY.fullmatch(word.rstrip("0123456789"))):
        return False
    following = [each for each in after if not each.isdigit()][:1]
    judged = bool(following) and (following[0] in _SAYS or _ANSWER.fullmatch(following[0]) is not None)
    return not judged and not (before[-1:] and before[-1] in _SAYS)
