"""Files as a damaged disk or an attacker would leave them: mutations of JSON, safetensors and ONNX, drawn by a seed."""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

DEEP = 100_000
Path = tuple[str | int, ...]


class Raw(str):
    """Text that stands in JSON as it is."""


VALUES: tuple[Callable[[], Any], ...] = (
    lambda: None,
    lambda: True,
    lambda: False,
    lambda: 0,
    lambda: -1,
    lambda: 1,
    lambda: 3,
    lambda: 0.5,
    lambda: -2.75,
    lambda: 5e-324,
    lambda: 1e-30,
    lambda: 1e16,
    lambda: 1e300,
    lambda: -1e308,
    lambda: 2**31,
    lambda: 2**63,
    lambda: -(2**63) - 1,
    lambda: 10**9,
    lambda: Raw("1" + "0" * 400),
    lambda: Raw("9" * 5000),
    lambda: Raw("NaN"),
    lambda: Raw("Infinity"),
    lambda: Raw("-Infinity"),
    lambda: Raw("1e400"),
    lambda: Raw("[" * DEEP + "]" * DEEP),
    lambda: Raw('{"a":' * DEEP + "1" + "}" * DEEP),
    lambda: Raw("[" * 300 + "]" * 300),
    lambda: "",
    lambda: "x",
    lambda: "1",
    lambda: "nan",
    lambda: "x" * 1_000_000,
    lambda: "line\nbreak\x00\x1b[31m",
    lambda: Raw('"\\ud800"'),
    lambda: "{row.__class__.__mro__}",
    lambda: "{0}",
    lambda: "{class!r:>9999999}",
    lambda: "{",
    lambda: "=cmd|' /C calc'!A0",
    lambda: "numeric",
    lambda: "datetime64[ns]",
    lambda: "category",
    lambda: "float32",
    lambda: "a <= 1e999 * b",
    list,
    lambda: [[]],
    lambda: [None],
    lambda: [1, 2],
    lambda: [2, 1],
    lambda: ["a", "b"],
    lambda: [Raw("NaN"), 1],
    dict,
    lambda: {"a": 1},
    lambda: {"en": {"phrase": 3}},
    lambda: {"de": {"verb": "{row.x}", "cluster": "{class.x}"}},
)


NUMBERS = (
    *(("<f", value) for value in (float("nan"), float("inf"), 0.0, 1e38)),
    *(("<d", value) for value in (float("nan"), float("-inf"), -0.5, 0.3, 3e9)),
    *(("<q", value) for value in (-1, 2**40)),
)


def paths(tree: Any, here: Path = ()) -> Iterator[Path]:
    """The place of every value in a tree."""
    yield here
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, part in items:
        yield from paths(part, (*here, key))


def written(tree: Any) -> str:
    """JSON of a tree in which `Raw` parts stand as they are."""
    raws: list[Raw] = []

    def marked(part: Any) -> Any:
        if isinstance(part, Raw):
            raws.append(part)
            return f"@raw {len(raws) - 1}@"
        if isinstance(part, dict):
            return {k: marked(v) for k, v in part.items()}
        return [marked(v) for v in part] if isinstance(part, list) else part

    text = json.dumps(marked(tree))
    for place, raw in enumerate(raws):
        text = text.replace(f'"@raw {place}@"', raw)
    return text


def mutated_json(tree: Any, rng: Random) -> bytes:
    """The tree as JSON, with one to three of its parts changed."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        tree = _mutated(tree, rng)
        if isinstance(tree, Raw) or not isinstance(tree, dict | list):
            break
    text = written(tree).encode("utf-8", "surrogatepass")
    return mutated_bytes(text, rng) if rng.random() < 0.05 else text


def _mutated(tree: Any, rng: Random) -> Any:
    every = list(paths(tree))
    short = [p for p in every if len(p) <= 2]
    path = rng.choice(short if rng.random() < 0.5 else every)
    if not path:
        return rng.choice(VALUES)() if rng.random() < 0.2 else tree
    owner = tree
    for step in path[:-1]:
        owner = owner[step]
    key, value = path[-1], owner[path[-1]]
    kind = rng.choice(("drop", "twice", "value", "value", "value", "value", "wrap", "swap", "unknown", "near"))
    if kind == "drop":
        del owner[key]
    elif kind == "twice" and isinstance(owner, dict):
        owner[key] = Raw(f"{written(value)}, {json.dumps(key)}: {written(rng.choice(VALUES)())}")
    elif kind == "twice":
        owner.insert(key, copy.deepcopy(value))
    elif kind == "wrap":
        owner[key] = [value] if rng.random() < 0.5 else {"a": value}
    elif kind == "swap":
        other = rng.choice(list(owner) if isinstance(owner, dict) else range(len(owner)))
        owner[key], owner[other] = owner[other], owner[key]
    elif kind == "unknown" and isinstance(owner, dict):
        owner["unheard of"] = rng.choice(VALUES)()
    elif kind == "near" and isinstance(value, int | float) and not isinstance(value, bool):
        owner[key] = rng.choice((-value, value * 1e6, value + 1, float(value), str(value), value * 1e-9, int(value)))
    else:
        owner[key] = rng.choice(VALUES)()
    return tree


def mutated_bytes(data: bytes, rng: Random) -> bytes:
    """Some bytes flipped, cut off, doubled or put in."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(out) + 1)
        kind = rng.choice(("flip", "flip", "flip", "cut", "double", "insert", "zero", "ones"))
        if kind == "cut":
            del out[at:]
        elif kind == "double":
            out[at:at] = out[max(0, at - 40) : at]
        elif kind == "insert":
            out[at:at] = rng.randbytes(rng.choice((1, 3, 30)))
        elif at < len(out):
            size = rng.choice((1, 1, 4, 8))
            new = {"flip": bytes([out[at] ^ (1 << rng.randrange(8))]), "zero": bytes(size), "ones": b"\xff" * size}[
                kind
            ]
            out[at : at + len(new)] = new
        if not out:
            break
    return bytes(out)


def mutated_safetensors(data: bytes, rng: Random) -> bytes:
    """A safetensors file with another header, or other numbers, or with bytes changed anywhere."""
    (length,) = struct.unpack("<Q", data[:8])
    head, body = data[8 : 8 + length], data[8 + length :]
    kind = rng.choice(("header", "header", "header", "length", "numbers", "numbers", "bytes", "cut"))
    if kind == "length":
        size = rng.choice((0, 1, length - 1, length + 1, 2**31, 2**63, 2**64 - 1))
        return struct.pack("<Q", size) + head + body
    if kind == "numbers" and body:
        new = bytearray(body)
        for _ in range(rng.choice((1, 3))):
            form, value = rng.choice(NUMBERS)
            packed = struct.pack(form, value)
            at = rng.randrange(len(new) // len(packed)) * len(packed)
            new[at : at + len(packed)] = packed
        return data[: 8 + length] + bytes(new)
    if kind == "bytes":
        return mutated_bytes(data, rng)
    if kind == "cut":
        return data[: rng.randrange(len(data))]
    tree = json.loads(head)
    name = rng.choice(list(tree))
    part = tree[name]
    change = rng.choice(("dtype", "shape", "offsets", "drop", "rename", "json", "reshape", "swap"))
    if change == "dtype":
        part["dtype"] = rng.choice(("F64", "F32", "F16", "BF16", "I64", "U8", "BOOL", "F8_E4M3", "F4", "C64", "x", 3))
    elif change == "shape":
        part["shape"] = rng.choice(
            ([2**60], [2**60, 2**60], [0], [], [-1], [10**9, 10**9], [1.5], ["1"], None, [1] * 70)
        )
    elif change == "reshape":
        part["shape"] = rng.choice((list(reversed(part["shape"])), [1, *part["shape"]], [*part["shape"], 1]))
    elif change == "offsets":
        part["data_offsets"] = rng.choice(([0, 2**62], [8, 0], [0, 0], [len(body), 2 * len(body)], [-1, 4], None, [0]))
    elif change == "drop":
        del tree[name]
    elif change == "rename":
        tree["unheard of"] = tree.pop(name)
    elif change == "swap":
        other = rng.choice(list(tree))
        tree[name], tree[other] = tree[other], tree[name]
    else:
        new_head = mutated_json(tree, rng)
        return struct.pack("<Q", len(new_head)) + new_head + body
    new_head = json.dumps(tree).encode()
    return struct.pack("<Q", len(new_head)) + new_head + body
