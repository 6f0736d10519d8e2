"""Documents as keyed sentences: `key: sentence`, a line each.

Hides the forms in which people have them: published rows bring their keys, in a column beside the plain documents;
plain sentences get keys in the same style, the document's number and letters: `0a` to `0z`, `0aa`, `0ab` and so on.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

Sentence = tuple[str, str]
"""(key, text)"""

_KEY_NAMES = ("key", "sentence_key")
_TEXT_NAMES = ("text", "sentence")
_WHOLE = "must be a list of sentences, or a list of documents that are lists of sentences"
_ONE = "must be a text, [key, text], or a mapping of key and text"
_KEY = re.compile(r"(?=.*[0-9_])\S{1,40}(?<![.!?…。！？])", re.S)
_SENTENCE = re.compile(r"(?=.*\s).*|.{41,}|[^0-9_]*[.!?…。！？]", re.S)


def sentences_value(fields: Mapping[str, Any], name: str) -> Any:
    """What the field holds for a judge that wants keyed sentences: where `NAME_sentences` stands beside it, that."""
    published = fields.get(f"{name}_sentences")
    return fields.get(name) if published is None else published


def keyed_sentences(value: Any) -> list[Sentence]:
    """(key, text) of every sentence, in order; texts keep every byte. ValueError says which place is wrong.

    A list of documents, each a list of sentences, or one flat list of sentences, which is document 0. A sentence is
    `[key, text]`, a mapping of `key` (or `sentence_key`) and `text` (or `sentence`), or a plain text, which gets a key;
    all have the same form. A document may be empty. In a flat list of `[key, text]` every key holds a digit or `_`, and
    no blank: by that it is told from documents of two plain sentences, and what may be either is refused.
    """
    if not _is_list(value):
        raise ValueError(f"{_WHOLE}, not {_describe(value)}")
    texts: dict[str, str] = {}
    paths: dict[str, str] = {}
    first: tuple[bool, str] | None = None
    for path, document, number, sentence in _each(value):
        own_key, text = _sentence(sentence, path)
        first = first or (own_key is None, path)
        if first[0] != (own_key is None):
            with_key, without = (first[1], path) if own_key is None else (path, first[1])
            raise ValueError(f"{without}: has no key, but {with_key} has one")
        key = _make_key(document, number) if own_key is None else own_key
        if key in texts:
            raise ValueError(f"{path}: the key {key!r} is that of {paths[key]} already")
        texts[key], paths[key] = text, path
    if not texts:
        raise ValueError("holds no sentence")
    return list(texts.items())


def as_lines(sentences: Sequence[Sentence]) -> str:
    """`key: text`, a line each."""
    return "\n".join(f"{key}: {text}" for key, text in sentences)


def _each(value: Sequence[Any]) -> list[tuple[str, int, int, Any]]:
    """(path, number of the document, number in the document, sentence) of all."""
    lists = [_is_list(part) for part in value]
    if not any(lists) or _is_flat(value):
        return [(f"[{number}]", 0, number, sentence) for number, sentence in enumerate(value)]
    if not all(lists):
        odd = lists.index(not lists[0])
        raise ValueError(f"[{odd}]: is {_describe(value[odd])}, but [0] is {_describe(value[0])}; {_WHOLE}")
    return [
        (f"[{document}][{number}]", document, number, sentence)
        for document, sentences in enumerate(value)
        for number, sentence in enumerate(sentences)
    ]


def _is_flat(value: Sequence[Any]) -> bool:
    """Whether the lists are the sentences themselves, `[key, text]` all of them."""
    if not all(_is_list(part) and len(part) == 2 and all(isinstance(text, str) for text in part) for part in value):
        return False
    firsts = [part[0] for part in value]
    if all(map(_KEY.fullmatch, firsts)):
        return True
    if all(map(_SENTENCE.fullmatch, firsts)):
        return False
    like = _SENTENCE if _SENTENCE.fullmatch(firsts[0]) else _KEY
    odd = next(number for number, first in enumerate(firsts) if not like.fullmatch(first))
    raise ValueError(
        f"[{odd}]: it cannot be told whether these are [key, text] or documents of two sentences; "
        "write each sentence as {key, text}"
    )


def _sentence(value: Any, path: str) -> tuple[str | None, str]:
    """(key where it has one, text)."""
    if isinstance(value, str):
        return None, value
    if isinstance(value, Mapping):
        key, text = (_of_mapping(value, names, path) for names in (_KEY_NAMES, _TEXT_NAMES))
    elif _is_list(value) and len(value) == 2:
        key, text = value
    else:
        raise ValueError(f"{path}: {_ONE}, not {_describe(value)}")
    for part, what in ((key, "key"), (text, "text")):
        if not isinstance(part, str):
            raise ValueError(f"{path}: the {what} must be a text, not {_describe(part)}")
    if not key or key != key.strip() or len(key.splitlines()) > 1:
        raise ValueError(f"{path}: {key!r} is no key: it is empty, has blanks around it, or a line break in it")
    return key, text


def _of_mapping(value: Mapping[Any, Any], names: tuple[str, ...], path: str) -> Any:
    present = [name for name in names if name in value]
    if len(present) != 1:
        raise ValueError(f"{path}: a mapping that is a sentence has exactly one of {' and '.join(names)}")
    return value[present[0]]


def _make_key(document: int, number: int) -> str:
    letters = ""
    rest = number + 1
    while rest:
        rest, letter = divmod(rest - 1, 26)
        letters = chr(ord("a") + letter) + letters
    return f"{document}{letters}"


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _describe(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, Mapping):
        return "a mapping"
    return f"a list of {len(value)}" if _is_list(value) else f"{value!r:.40}"
