"""A quick yes for the results that our own worker writes, with the standard library alone.

Every attempt ends with one, and `bus.schema`, which judges everything that is handed in, costs more to load than all
else that a start does. So a result whose every field is plainly what `schema.Result` asks for is taken at once; any
other goes to the model, which also says what is wrong with it. A property test holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bus.wire import JsonObject

Check = Callable[[Any], bool]

_EXACT = 1 << 53
"""Numbers up to here are the same as whole and as floating ones."""


def _of(*kinds: type) -> Check:
    """Exactly these types: True is no number here."""
    return lambda value: type(value) in kinds


def _number(value: Any) -> bool:
    return type(value) is float or (type(value) is int and -_EXACT <= value <= _EXACT)


def _optional(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _list(check: Check) -> Check:
    return lambda value: type(value) is list and all(map(check, value))


def _object(required: Mapping[str, Check], optional: Mapping[str, Check]) -> Check:
    fields = {**optional, **required}

    def check(value: Any) -> bool:
        return (
            type(value) is dict
            and value.keys() >= required.keys()
            and all(name not in fields or fields[name](part) for name, part in value.items())
        )

    return check


_text, _whole, _dict = _of(str), _of(int), _of(dict)
_ended = {"code": _optional(_whole), "signal": _optional(_whole)}

is_plain_result: Callable[[JsonObject], bool] = _object(
    {
        "started": _of(bool),
        "ended_by": lambda value: value in ("self", "timeout", "stop"),
    },
    {
        "stop_reason": _optional(_text),
        "why": _optional(_text),
        "command": _optional(_object({}, _ended)),
        "report": _optional(_dict),
        "final_record": _optional(_dict),
        "verify": _list(_object({"argv": _list(_text)}, {**_ended, "error": _optional(_text)})),
        "outputs": _list(_object({"path": _text, "exists": _of(bool)}, {})),
        "usage": _optional(_dict),
        "leftovers": _dict,
        "tree_empty": _of(bool),
        "started_at": _optional(_text),
        "ended_at": _optional(_text),
        "seconds": _optional(_number),
        "log_bytes": lambda value: type(value) is dict and all(map(_whole, value.values())),
        "timeout": _optional(_number),
        "signals": _list(_object({"name": _text, "after": _number}, {})),
        "tail": _text,
    },
)
"""Tell whether this is plainly the content of an `exit.json`; False says nothing."""


def is_result(body: JsonObject) -> bool:
    """Tell whether this is the content of an `exit.json`."""
    if is_plain_result(body):
        return True
    from bus.schema import fits_result  # pydantic is loaded for what is odd, not before

    return fits_result(body)
