# SPDX-License-Identifier: BSD-3-Clause
"""bits_compare.py - whether two folders of results hold the same: every byte, but for times and the like.

Of JSON the members are compared that the first folder has, of a state the sections and options, of models.run the
options: new ones may be added. What is left out: members of `exceptions`, times in a state, and checksums of what holds times. A file
whose exception is "+" is compared where both folders have it, and may be missing in the first.
compare(a, b, exceptions) gives sentences, none where all is the same.
"""
import json
import os
import re
import struct

# Times and rates that a sentence tells.
_TIME = re.compile(r"\b\d+([.]\d+)?(e[-+]?\d+)? ?((ns|us|ms|s|min|h)\b|[kMG]? ?\w+/s)")


def compare(a, b, exceptions):
    found = []
    names_a, names_b = _files(a), _files(b)
    for name in sorted(names_a | names_b):
        if name not in names_a and "+" in exceptions.get(os.path.basename(name), ()):
            continue
        if name not in names_b or name not in names_a:
            found.append(f"{name}: only the {'first' if name in names_a else 'second'} has it")
            continue
        one, other = os.path.join(a, name), os.path.join(b, name)
        if os.path.islink(one) or os.path.islink(other):
            if os.readlink(one) != os.readlink(other):
                found.append(f"{name}: another link")
            continue
        found += [f"{name}: {what}" for what in _compare_file(name, one, other, exceptions)]
    return found


def _files(top):
    found = set()
    for where, folders, files in os.walk(top):
        for name in files + [d for d in folders if os.path.islink(os.path.join(where, d))]:
            found.add(os.path.relpath(os.path.join(where, name), top))
    return found


def _read(path):
    with open(path, "rb") as f:
        return f.read()


def _compare_file(name, one, other, exceptions):
    x, y = _read(one), _read(other)
    if x == y:
        return []
    last = os.path.basename(name)
    if "*" in exceptions.get(last, ()):
        return []
    try:
        if re.fullmatch(r"state([.]\d+)?", last):
            return _differences(_state(x), _state(y), "")
        if last in ("stdout", "stderr"):
            x, y = (_said(t.decode()) for t in (x, y))
            return [] if x == y else [_first_line(x, y)]
        if "+" in exceptions.get(last, ()):
            return [_first_byte(x, y)]
        if last in exceptions and last.endswith(".run"):
            return _differences(_options(x), _options(y), "", exceptions[last])
        if last in exceptions and last.endswith(".tsv"):
            return _differences(_table(x), _table(y), "", exceptions[last])
        if last in exceptions:
            return _differences(json.loads(x), json.loads(y), "", exceptions[last])
    except (ValueError, struct.error, IndexError, KeyError) as e:
        return [f"cannot be read: {e}"]
    return [_first_byte(x, y)]


def _said(text):
    """What the programs said, without times, and without what mpirun adds where a process ends in an error."""
    lines = _TIME.sub("TIME", text).splitlines(keepends=True)
    if any(line.startswith("-----") for line in lines):
        lines = sorted(line for line in lines if line.startswith(("tstream", "tshard")))
    return "".join(lines).encode()


def _first_byte(x, y):
    at = next((i for i, (p, q) in enumerate(zip(x, y)) if p != q), min(len(x), len(y)))
    if len(x) != len(y):
        return f"{len(x)} and {len(y)} bytes, another one at {at}"
    return f"byte {at} is {x[at]:#04x} and {y[at]:#04x}"


def _first_line(x, y):
    lines = [t.decode(errors="replace").splitlines() + [""] for t in (x, y)]
    for p, q in zip(*lines):
        if p != q:
            return f"\"{p}\" is now \"{q}\""
    return "more lines"


def _options(data):
    """What a file of the options of a run says: NAME=VALUE, each ended by a zero byte."""
    return dict(t.partition("=")[::2] for t in data.decode().split("\0"))


def _table(data):
    rows = [line.split("\t") for line in data.decode().splitlines()]
    return [dict(zip(rows[0], row)) for row in rows[1:]]


def _differences(x, y, where, left_out=frozenset()):
    """Members of x that y has not, or another value of."""
    if isinstance(x, dict) and isinstance(y, dict):
        found = []
        for key in x:
            if key not in left_out:
                at = f"{where}.{key}" if where else str(key)
                found += (_differences(x[key], y[key], at, left_out) if key in y
                          else [f"{at} is missing"])
        return found
    if isinstance(x, list) and isinstance(y, list) and len(x) == len(y):
        return [d for i, (p, q) in enumerate(zip(x, y))
                for d in _differences(p, q, f"{where}[{i}]", left_out)]
    if isinstance(x, bytes) and isinstance(y, bytes):
        return [] if x == y else [f"{where}: {_first_byte(x, y)}"]
    # 1 and 1.0 and True are other texts in JSON
    return [] if x == y and type(x) is type(y) else [f"{where} is {str(x)[:60]} and {str(y)[:60]}"]


def _state(data):
    """A state as docs/checkpoint.md has it, without times."""
    if data[:8] != b"TSHSTATE":
        raise ValueError("not a state")
    n = struct.unpack_from("<I", data, 12)[0]
    state = {"header": data[:16] + data[24:72]}  # without the size of the file and times
    at = 256 + 32 * n + 8
    for i in range(n):
        name, size = struct.unpack_from("<16sQ", data, 256 + 32 * i)
        name = name.rstrip(b"\0").decode()
        body = data[at:at + size]
        at += (size + 7) // 8 * 8 + 8
        if name == "sweep":
            body = body[64:]  # seven times come first, and the bytes read
        elif name == "past":
            body = b"".join(body[k:k + 8] for k in range(0, size, 16))
        if name == "options":
            pairs = (t.split("=", 1) for t in body.decode().split("\0") if t)
            state[name] = {key: value for key, value in pairs}
        else:
            state[name] = body
    if at != len(data):
        raise ValueError(f"sections end at byte {at} of {len(data)}")
    return state
