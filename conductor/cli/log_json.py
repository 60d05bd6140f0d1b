"""`logs --json`: both streams as text in one object, written as it is read, so that its size costs no memory."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Sequence
from typing import Any

from bus.wire import dumps
from conductor.cli.escape import json_text
from conductor.cli.log_files import Gap, LogReader, Span
from conductor.cli.log_loss import Loss

MOST = 24 << 20
"""Bytes of a stream that are printed: as many as a worker keeps of it, unless `log_cap` says more."""


def print_streams(task: str, attempt: str, stdout: LogReader, stderr: LogReader, loss: Loss | None) -> None:
    """Print the object. Nothing is printed where a stream cannot be read: raises BusUnsafe before."""
    streams = {"stdout": (stdout, stdout.parts(MOST)), "stderr": (stderr, stderr.parts(MOST))}
    _write(f'{{\n  "task": {_text(task)},\n  "attempt": {_text(attempt)}')
    for name, (reader, parts) in streams.items():
        _write(f',\n  "{name}": ')
        _print_stream(reader, parts)
    _write(f',\n  "lost": {json_text(dumps(_lost(loss)))}')
    _write("\n}\n")


def _lost(loss: Loss | None) -> dict[str, Any] | None:
    if loss is None:
        return None
    return {"bytes": loss.size, "why": loss.why, "stream": loss.stream, "end": loss.tail}


def _print_stream(reader: LogReader, parts: Sequence[Span | Gap]) -> None:
    """Print one stream: what is in front of the first gap, and all that is behind it."""
    gaps = [part for part in parts if isinstance(part, Gap)]
    first = parts.index(gaps[0]) if gaps else len(parts)
    _write('{\n    "head": "')
    _print_text(reader, parts[:first])
    _write('",\n    "tail": "')
    _print_text(reader, parts[first:])
    lost, left_out = (sum(gap.size for gap in gaps if gap.is_kept is kept) for kept in (False, True))
    _write(f'",\n    "not_kept": {lost},\n    "left_out": {left_out}\n  }}')


def _print_text(reader: LogReader, parts: Sequence[Span | Gap]) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    for part in parts:
        if isinstance(part, Span):
            for chunk in reader.read(part):
                _write(_text(decoder.decode(chunk))[1:-1])
    _write(_text(decoder.decode(b"", final=True))[1:-1])


def _text(text: str) -> str:
    return json_text(dumps(text))


def _write(text: str) -> None:
    sys.stdout.write(text)
