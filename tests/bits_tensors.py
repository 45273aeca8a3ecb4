# SPDX-License-Identifier: BSD-3-Clause
"""bits_tensors.py - the tensors and starts of tests/bits, by name: the same text on every machine.

`values` is any (real numbers), count, bit (0 and 1) or positive.
"""
import math
import os
import random
import struct

# dims, nonzeros, what `tshard build` is told; `kind` is what differs from a list of nonzeros
SPARSE = {
    "order3": dict(dims=(60, 50, 40), nnz=4000),
    "coded": dict(dims=(60, 50, 40), nnz=4000, kind="coded"),
    "float64-values": dict(dims=(60, 50, 40), nnz=4000, build=["--values", "float64"]),
    "order4": dict(dims=(24, 36, 18, 37), nnz=4000),
    "order5": dict(dims=(36, 12, 34, 9, 11), nnz=3000),
    "order8": dict(dims=(34, 35, 36, 4, 5, 3, 4, 6), nnz=2000),
    "duplicates": dict(dims=(60, 50, 40), nnz=4000, kind="duplicates",
                       build=["--duplicates", "keep"]),
    "zeros": dict(dims=(60, 50, 40), nnz=4000, kind="zeros", build=["--zeros", "keep"]),
    "weights": dict(dims=(60, 50, 40), nnz=4000, kind="weights",
                    build=["--value", "v", "--weights", "w"]),
    "gaps": dict(dims=(300, 50, 45), nnz=1500, kind="gaps"),
    "heavy": dict(dims=(400, 90, 40), nnz=30000, kind="heavy",
                  build=["--values", "float64", "--shard", "64K"]),
}
SPARSE["streamed"] = SPARSE["heavy"]
DENSE = {
    "dense": dict(dims=(36, 35, 34), type="<f8"),
    "dense-order4": dict(dims=(36, 9, 34, 6), type="<f4"),
    "dense-unknown": dict(dims=(36, 35, 34), type="<f8", unknown=True),
    "dense-raw": dict(dims=(36, 35, 34), type="<i2"),
}


def _value(draw, values, kind=None):
    if values == "bit":
        return 1 if kind != "zeros" else draw.randrange(2)
    if values == "count":
        return draw.randrange(1, 6) if kind != "zeros" else draw.randrange(0, 4)
    if kind == "coded":
        return draw.choice((0.25, 0.5, 1.5, 3.25, 7.125))
    if values == "positive":
        return round(0.1 + 3 * draw.random() ** 2, 5)
    if kind == "zeros" and draw.random() < 0.3:
        return 0
    return round(draw.random() * 4 - 0.8, 5)


def _index(draw, dim, kind):
    if kind == "heavy":  # few indices are popular, so that rows span partitions
        return min(int(dim * draw.random() ** 4), dim - 1)
    if kind == "gaps":
        return draw.randrange(dim) // 3 * 3
    return draw.randrange(dim)


def _sparse_text(shape, values):
    kind, draw, seen, lines = shape.get("kind"), random.Random(7), set(), []
    cell = None
    # the corners are there, so that sizes are those of the table above
    cells = [tuple(d - 1 for d in shape["dims"])]
    while len(seen) < shape["nnz"]:
        cell = cells.pop() if cells else tuple(_index(draw, d, kind) for d in shape["dims"])
        if cell not in seen:
            seen.add(cell)
            lines.append(list(cell) + [_value(draw, values, kind)])
            if kind == "duplicates" and draw.random() < 0.1:
                lines.append(list(cell) + [_value(draw, values, kind)])
    for line in lines:
        line[:-1] = [i + 1 for i in line[:-1]]
        if kind == "weights":
            line.append(round(0.5 + draw.random(), 3))
    between = "," if kind == "weights" else " "
    head = "a,b,c,v,w\n" if kind == "weights" else ""
    return head + "".join(between.join(str(x) for x in line) + "\n" for line in lines)


def _cells(shape, values):
    draw = random.Random(7)
    n = math.prod(shape["dims"])
    cells = []
    for i in range(n):
        if shape.get("unknown") and draw.random() < 0.1:
            cells.append(math.nan)
        elif values == "bit":
            cells.append(draw.randrange(2))
        else:
            cells.append(_value(draw, values) + math.sin(i) * (values == "any"))
    if shape["type"] == "<i2":
        cells = [int(10 * c) if values == "any" else max(1, int(c)) if values == "positive" else int(c)
                 for c in cells]
    return struct.pack(f"<{n}{ {'<f8': 'd', '<f4': 'f', '<i2': 'h'}[shape['type']] }", *cells)


def _npy(shape, values):
    head = (f"{{'descr': '{shape['type']}', 'fortran_order': False, "
            f"'shape': {tuple(shape['dims'])}, }}")
    head += " " * (-(len(head) + 11) % 64) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + _cells(shape, values)


def write_input(folder, name, values):
    """Writes the text or the array; gives its name and, of text, the options of its build."""
    if name in DENSE:
        raw = name == "dense-raw"
        path = os.path.join(folder, f"{name}.{values}.{'bin' if raw else 'npy'}")
        data = _cells(DENSE[name], values) if raw else _npy(DENSE[name], values)
        with open(path, "wb") as f:
            f.write(data)
        return path, None
    shape = SPARSE[name]
    path = os.path.join(folder, f"{name}.{values}.{'csv' if shape.get('kind') == 'weights' else 'tns'}")
    with open(path, "w", encoding="ascii") as f:
        f.write(_sparse_text(shape, values))
    return path, shape.get("build", [])


def write_start(folder, name, rank):
    """A ktensor of the tensor's sizes, with some entries below 0 in all modes but the second."""
    dims = (SPARSE.get(name) or DENSE[name])["dims"]
    path = os.path.join(folder, f"start.{'x'.join(map(str, dims))}.{rank}.ktensor")
    draw = random.Random(3)
    with open(path, "w", encoding="ascii") as f:
        f.write(f"ktensor\n{len(dims)}\n{' '.join(map(str, dims))}\n{rank}\n")
        f.write(" ".join(str(rank - r) for r in range(rank)) + "\n")
        for m, dim in enumerate(dims):
            f.write(f"matrix\n2\n{dim} {rank}\n")
            for _ in range(dim):
                f.write(" ".join(f"{draw.random() - (0.1 if m != 1 else 0):.6f}"
                                 for _ in range(rank)) + "\n")
    return path
