"""Payloads that do not fit a journal line: kept under their SHA-256, written before the line that names them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bus import layout
from bus._fs import Refused
from bus.errors import BusCorrupt
from bus.folders import Folders
from bus.lines import REPAIR_HINT
from bus.strict import WireError, loads_strict
from bus.wire import MAX_LINE, MAX_MESSAGE, Record, dumps, encode_record

MAX_BLOB = 16 * MAX_MESSAGE

_INLINE = 128
"""Top-level values up to this many bytes stay in the line, so that ids, exit, class and commit can be read there."""


def encode(record: Record) -> tuple[bytes, tuple[str, bytes] | None]:
    """Return the record's line, and (SHA-256, payload) of the blob that has to be kept before it, if one is needed.

    A payload with a key `blob` of its own always becomes a blob; so a line with that key always means ours.
    """
    line = encode_record(record)
    if len(line) <= MAX_LINE and "blob" not in record.payload:
        return line, None
    body = dumps(record.payload).encode()
    sha = digest(body)
    mark = {"blob": sha, "size": len(body)}
    small = {key: value for key, value in record.payload.items() if key not in mark and _is_small(key, value)}
    line = encode_record(replace(record, payload={**small, **mark}))
    if len(line) > MAX_LINE:
        line = encode_record(replace(record, payload=mark))
    return line, (sha, body)


def digest(body: bytes) -> str:
    """The SHA-256 of a body, as it stands in a file's name."""
    return hashlib.sha256(body).hexdigest()


def _is_small(key: str, value: Any) -> bool:
    return len(key) <= _INLINE and len(dumps(value).encode()) <= _INLINE


def is_reference(payload: Mapping[str, Any]) -> bool:
    """Tell whether the payload of a line stands for a blob."""
    return "blob" in payload


def store(folders: Folders, sha: str, body: bytes, *, scratch: str, sync: bool) -> None:
    """Keep a payload. A whole one that is there already stays."""
    folders.fs.publish(scratch, folders.refresh(layout.TMP), sha, folders.refresh(layout.BLOBS), body, sync=sync)


def resolve(folders: Folders, record: Record) -> Record:
    """Put the whole payload back into a record. Raises BusCorrupt where it is missing or not what its name says."""
    if not is_reference(record.payload):
        return record
    name = str(record.payload["blob"])
    try:
        body = folders.read(layout.BLOBS, layout.blob_name(name), cap=MAX_BLOB)
        if digest(body) != name:
            raise Refused("the content does not fit the name")
        payload = loads_strict(body)
    except (FileNotFoundError, Refused, layout.LayoutError, WireError) as error:
        reason = "it is not there any more" if isinstance(error, FileNotFoundError) else error
        raise BusCorrupt(
            f"the payload of record {record.seq} cannot be read: {reason}",
            path=f"{layout.BLOBS}/{name}",
            hint=REPAIR_HINT,
        ) from error
    return replace(record, payload=payload)
