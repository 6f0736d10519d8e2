"""What travels between processes arrives as it was sent."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import fields, is_dataclass

import pytest

from runner import messages as protocol

RECORDS = [found for _, found in inspect.getmembers(protocol, inspect.isclass) if is_dataclass(found)]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_a_record_arrives_whole(record: type) -> None:
    values = {field.name: f"the {field.name} of it" for field in fields(record)}
    sent = record(**values)
    arrived = pickle.loads(pickle.dumps(sent))
    assert type(arrived) is record
    assert {name: getattr(arrived, name) for name in values} == values
