"""Strict JSON, decoded once at the border.

Refused are duplicate names at any depth, unknown and missing names, another case,
booleans, floats and ``-0`` where an integer is wanted, trailing data, a byte order
mark, invalid UTF-8, lone surrogates and anything over 8 MiB. Nothing is coerced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

MAX_MESSAGE = 8 << 20
"""Bytes of any message, either way."""


class Fault(Exception):
    """What is wrong with a message; its caller gives it a code. It holds no value."""


class TooDeep:
    """Stands for a value that is nested deeper than Python can hold it."""


Check = Callable[[Any], bool]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) != len(pairs):
        raise Fault("names something twice")
    return names


def _constant(_: str) -> Any:
    raise Fault("isn't strict JSON")


def _integer(text: str) -> int | float:
    # -0 is an integer to some languages and a float to others; huge ones would
    # cost a quadratic conversion.
    return float(text) if text == "-0" or len(text) > 4000 else int(text)


_SURROGATE = re.compile(r"[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _whole(text: str) -> bool:
    """Tell whether a string is text: a lone surrogate can't be encoded."""
    return _SURROGATE.search(text) is None


def _all_whole(value: Any) -> bool:
    rest = [value]
    while rest:
        v = rest.pop()
        if isinstance(v, str):
            if not _whole(v):
                return False
        elif isinstance(v, dict):
            rest += v.keys()
            rest += v.values()
        elif isinstance(v, list):
            rest += v
    return True


def _loads(text: str) -> Any:
    value = json.loads(text, object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer)
    if _ESCAPED_SURROGATE.search(text) and not _all_whole(value):
        raise Fault("isn't strict JSON")
    return value


_SPACE = re.compile(r"[ \t\n\r]*")
_MARK = re.compile(r'[\[\]{}"]')
_SCALAR = re.compile(r"[^,}\]\s]+")


def _end(text: str, at: int) -> int:
    """Answer where the value that begins at ``at`` ends, however deep it is."""
    if text[at] not in "[{":
        return scanstring(text, at + 1)[1] if text[at] == '"' else _SCALAR.match(text, at).end()  # type: ignore[union-attr]
    depth = 0
    while True:
        mark = _MARK.search(text, at)
        if mark is None:
            raise Fault("isn't strict JSON")
        at = mark.end()
        if mark[0] == '"':
            at = scanstring(text, at)[1]
            continue
        depth += 1 if mark[0] in "[{" else -1
        if depth == 0:
            return at


def _shallow(text: str) -> dict[str, Any]:
    """Decode an object some of whose values are too deep to be held."""
    at, pairs = _SPACE.match(text).end() + 1, []  # type: ignore[union-attr]
    while True:
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        if text[at] != '"':
            raise Fault("isn't strict JSON")
        name, at = scanstring(text, at + 1)
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        if text[at] != ":":
            raise Fault("isn't strict JSON")
        at = _SPACE.match(text, at + 1).end()  # type: ignore[union-attr]
        end = _end(text, at)
        try:
            value = _loads(text[at:end])
        except RecursionError:
            value = TooDeep()
        pairs.append((name, value))
        at = _SPACE.match(text, end).end()  # type: ignore[union-attr]
        if text[at] == "}" and not text[at + 1 :].strip(" \t\n\r"):
            return _object(pairs)
        if text[at] != ",":
            raise Fault("isn't strict JSON")
        at += 1


def decode(data: bytes, checks: Mapping[str, Check]) -> dict[str, Any]:
    """Decode exactly one JSON object with exactly the names of ``checks``.

    Each value must pass its check. A ``Fault`` names the field at fault and never
    repeats what was received.
    """
    if len(data) > MAX_MESSAGE:
        raise Fault("is over 8 MiB")
    value: Any = None
    try:
        text = data.decode("utf-8")
        try:
            value = _loads(text)
        except RecursionError:
            value = _shallow(text)
    except (ValueError, IndexError, AttributeError):
        pass
    if not isinstance(value, dict):
        raise Fault("isn't one strict JSON object")
    if value.keys() - checks.keys():
        raise Fault("has an unknown field")
    for name, check in checks.items():
        if name not in value:
            raise Fault(f"lacks its {name}")
        if not check(value[name]):
            raise Fault(f"has no proper {name}")
    return value


def encode(value: Mapping[str, Any]) -> bytes:
    """Encode a message; what strict JSON can't say, or 8 MiB can't hold, is a Fault."""
    data = b""
    try:
        data = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")
    except (TypeError, ValueError, RecursionError):
        pass
    if not data or len(data) > MAX_MESSAGE or not _named(value):
        raise Fault("can't be sent")
    return data


def _named(value: Any) -> bool:
    """Tell whether all names are strings: json.dumps turns others into some."""
    rest = [value]
    while rest:
        v = rest.pop()
        if isinstance(v, dict):
            if not all(isinstance(k, str) for k in v):
                return False
            rest += v.values()
        elif isinstance(v, (list, tuple)):
            rest += v
    return True


def text(value: Any) -> bool:
    """Tell a string."""
    return isinstance(value, str)


def hexadecimal(digits: int) -> Check:
    """Make a check for exactly so many lower-case hexadecimal digits."""
    form = re.compile(rf"[0-9a-f]{{{digits}}}")
    return lambda v: isinstance(v, str) and form.fullmatch(v) is not None


def integer(least: int, most: int) -> Check:
    """Make a check for an integer that was written as one."""
    return lambda v: type(v) is int and least <= v <= most


_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


def identifier(value: Any) -> bool:
    """Tell an engagement's or a run's id: ``^[A-Za-z0-9_-]{1,128}$``."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None
