"""What a judge's object says besides its verdict, such as its reason."""

from .outcome import Malformed
from .reading.clean import folded
from .reading.json_text import load, load_python, objects_in, unwrapped
from .reply_forms import AnyReads, ObjectReads


def remark_fields(reads: AnyReads) -> tuple[str, ...]:
    """The object's texts that are no part of the verdict; none of other kinds of reading."""
    if not isinstance(reads, ObjectReads) or reads.is_array:
        return ()
    kinds = {name: schema.get("type") for name, schema in reads.properties.items()}
    return tuple(name for name, kind in kinds.items() if kind == "string" and name not in reads.verdict)


def read_remarks(reads: AnyReads, text: str) -> dict[str, str]:
    """The remarks of the first object that gives a verdict; empty where it is too broken for anything but that."""
    if not isinstance(reads, ObjectReads):
        return {}
    spans = objects_in(text)
    for start, end in [] if isinstance(spans, Malformed) else spans:
        value = load(text[start:end], raw_controls=True)
        inside = unwrapped(load_python(text[start:end]) if isinstance(value, Malformed) else value, reads.properties)
        keys = {folded(key): key for key in inside} if isinstance(inside, dict) else {}
        if all(folded(name) in keys for name in reads.verdict):
            values = {name: inside[keys[folded(name)]] for name in remark_fields(reads) if folded(name) in keys}
            return {name: value for name, value in values.items() if isinstance(value, str)}
    return {}
