"""The decoder: what it takes is JSON to others, and comes back as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaperone_browser import strict
from chaperone_browser.strict import Fault

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
ANY = {"v": lambda v: True}


@given(JSON)
def test_comes_back(value: Any) -> None:
    try:
        text = json.dumps({"v": value}).encode()
        assert strict.decode(text, ANY) == {"v": value}
        assert strict.decode(strict.encode({"v": value}), ANY) == {"v": value}
    except UnicodeError:
        pass


@given(st.binary())
def test_bytes(data: bytes) -> None:
    for text in (data, b'{"v":' + data + b"}"):
        try:
            value = strict.decode(text, ANY)
        except Fault as fault:
            assert len(data) < 6 or data.decode("latin1") not in str(fault)
            continue
        assert json.loads(text) == value


@given(JSON, st.sampled_from([b" x", b"{}", b"\x00", b",", b"//", b"]"]))
def test_trailing_data(value: Any, more: bytes) -> None:
    with pytest.raises(Fault):
        strict.decode(json.dumps({"v": value}).encode() + more, ANY)


@pytest.mark.parametrize(
    "text",
    [
        '{"v":1,"v":1}', '{"v":1,"\\u0076":1}', '{"v":{"a":1,"a":2}}', '{"v":[{"a":1,"a":2}]}', '{"V":1}', "{}",
        '{"v":NaN}', '{"v":Infinity}', '{"v":-Infinity}', '{"v":01}', '{"v":+1}', '{"v":.5}', '{"v":"\\ud800"}',
        '{"v":"\\uDC00x"}', '{"\\ud800":1,"v":1}', '{"v":"\t"}', "{'v':1}", '{"v":1,}', '{"v":[1,]}', '\ufeff{"v":1}',
        '[{"v":1}]', "null", "", " ", '{"v":1', '{"v":tru}',
        '{"v":1,"v":' + "[" * 9000 + "]" * 9000 + "}", '{"v":' + "[" * 9000 + "}" * 9000 + "}",
        '{"v":' + "[" * 9000 + "]" * 9000 + '}x', '{"w":' + "[" * 9000 + "]" * 9000 + "}", '{v:' + "[" * 9000,
    ],
    ids=lambda t: t[:24].encode("unicode_escape").decode(),
)  # fmt: skip
def test_refused(text: str) -> None:
    with pytest.raises(Fault):
        value = strict.decode(text.encode("utf-8", "surrogatepass"), ANY)
        if isinstance(value["v"], strict.TooDeep):
            raise Fault("only a result may be too deep")


@pytest.mark.parametrize(
    ("text", "ok"),
    [("1", True), ("0", True), ("true", False), ("1.0", False), ("1e0", False), ("-0", False), ('"1"', False), ("null", False),
     ("9" * 5000, False), ("-1", False)],
)  # fmt: skip
def test_integers(text: str, ok: bool) -> None:
    try:
        strict.decode(f'{{"v":{text}}}'.encode(), {"v": strict.integer(0, 2**53)})
        assert ok
    except Fault:
        assert not ok


def test_size() -> None:
    whole = b'{"v":1}' + b" " * (strict.MAX_MESSAGE - 7)
    assert strict.decode(whole, ANY) == {"v": 1}
    with pytest.raises(Fault):
        strict.decode(whole + b" ", ANY)
