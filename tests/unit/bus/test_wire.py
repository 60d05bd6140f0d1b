"""Bytes of messages and records (requirement 26 for JSON)."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus import wire
from bus.strict import WireError
from bus.wire import AttemptId, ExitRecord, Message, Record, Stamp, TaskId, WorkerSpec

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=10,
)
payloads = st.dictionaries(text, json_values, max_size=4)
hexes = st.from_regex(r"[0-9a-f]{32}", fullmatch=True)


def sealed(body: str | bytes) -> bytes:
    raw = body if isinstance(body, bytes) else body.encode()
    return raw + b"\nsha256:" + hashlib.sha256(raw).hexdigest().encode() + b"\n"


def with_payload(payload: str) -> bytes:
    return sealed(f'{{"id":"{"0" * 32}","type":"NOTE","attempt":"a","timestamp":"t","payload":{payload}}}')


@given(hexes, text.map(AttemptId), text, payloads)
def test_messages_come_back(id: str, attempt: AttemptId, timestamp: str, payload: Any) -> None:
    message = Message(id, "NOTE", attempt, timestamp, payload)
    assert wire.decode_message(wire.encode_message(message)) == message


@given(st.integers(1), st.integers(1), payloads, text)
def test_records_come_back(seq: int, epoch: int, payload: Any, source: str) -> None:
    record = Record(seq, epoch, Stamp(1.5, 2.5, "b"), "0" * 32, "T", source, "t", TaskId("1"), None, payload)
    line = wire.encode_record(record)
    assert line.count(b"\n") == 1
    assert wire.decode_record(line) == record
    assert json.loads(line)["payload"] == payload


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_wire_error(data: Any) -> None:
    for candidate in (data, sealed(data)):
        with pytest.raises(WireError):
            wire.decode_message(candidate)


@given(st.data())
def test_any_cut_or_changed_byte_is_noticed(data: Any) -> None:
    whole = wire.encode_message(Message("0" * 32, "NOTE", AttemptId("a"), "t", {"text": "x"}))
    at = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(WireError):
        wire.decode_message(whole[:at])
    with pytest.raises(WireError):
        wire.decode_message(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])


@pytest.mark.parametrize(
    "payload",
    [
        '{"a":1,"a":2}',
        '{"a":NaN}',
        '{"a":-Infinity}',
        '{"a":1e999}',
        '{"a":"\\ud800"}',
        '{"\\udfff":1}',
        '{"a":' * 32 + "1" + "}" * 32,
        "[" * 100_000,
        "[" * 100_000 + "]" * 100_000,
        '{"a":' + "9" * 5000 + "}",
        "[]",
        "null",
        '{"a":1',
    ],
)
def test_requirement_26_unsound_json_is_refused(payload: Any) -> None:
    with pytest.raises(WireError):
        wire.decode_message(with_payload(payload))


@pytest.mark.parametrize("payload", ['{"a":"\\ud83d\\ude00"}', '{"a":' * 31 + "1" + "}" * 31, "{" + '"a":[{}]' + "}"])
def test_requirement_26_sound_json_is_not(payload: Any) -> None:
    assert wire.decode_message(with_payload(payload)).payload == json.loads(payload)


def test_requirement_26_size_is_capped() -> None:
    with pytest.raises(WireError, match="longer than"):
        wire.decode_message(with_payload('{"a":"%s"}' % ("x" * wire.MAX_MESSAGE)))


@pytest.mark.parametrize(
    "change",
    [{"id": "A" * 32}, {"id": 1}, {"type": "note"}, {"type": ""}, {"attempt": None}, {"timestamp": 3}, {"payload": []}],
)
def test_fields_have_their_types(change: dict[str, Any]) -> None:
    body = {"id": "0" * 32, "type": "NOTE", "attempt": "a", "timestamp": "t", "payload": {}, **change}
    with pytest.raises(WireError):
        wire.decode_message(sealed(json.dumps(body)))


def test_requirement_7_unknown_fields_are_ignored() -> None:
    body = {"id": "0" * 32, "type": "NOTE", "attempt": "a", "timestamp": "t", "payload": {}, "later": [1]}
    assert wire.decode_message(sealed(json.dumps(body))).type == "NOTE"
    assert wire.exit_from_json({"started": True, "ended_by": "self", "later": 1}) == ExitRecord(True, "self")


def test_specs_come_back() -> None:
    spec = WorkerSpec("/b", AttemptId("a"), 1, TaskId("1"), 1, "00000000", ["true"], "/", ladder=wire.Ladder(1, 2))
    sent = wire.dumps(wire.to_json(spec))
    assert wire.dumps(wire.to_json(wire.spec_from_json(json.loads(sent)))) == sent
    assert wire.spec_from_json(json.loads(sent)).ladder == wire.Ladder(1, 2)
