#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The Python package beside NumPy, text and TensorLy: import, tables, dense arrays, notebooks.

    bench/python.py [--turns N] [--cores N] [--aminoacid FILE] [--only NAME,...]

It needs NumPy. Without pandas, pyarrow or TensorLy, it leaves out what they are needed for.
PYTHONPATH and TSTREAM_LIBRARY name a package and a library that are not installed. Whatever is
compared takes turns, and times are medians of the turns. Two cores are two processors that this
process may use. --cores gives all measurements of tables for another number, too. FILE is text of
the aminoacid tensor (5 x 201 x 61); without it an array of this shape is drawn.
"""
import argparse
import ast
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def has(*packages):
    """Whether all of them are installed."""
    return all(importlib.util.find_spec(each) for each in packages)


def turns(n, **functions):
    """Elapsed seconds and seconds of the processors of each function, medians of n turns.

    The function that begins moves on by one each turn, so that none has the better place.
    """
    names, times = list(functions), {name: [] for name in functions}
    for turn in range(n):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            busy, start = time.process_time(), time.perf_counter()
            functions[name]()
            times[name].append((time.perf_counter() - start, time.process_time() - busy))
    return {name: tuple(map(statistics.median, zip(*each))) for name, each in times.items()}


def row(what, figure, asked=""):
    """A line of the table."""
    print(f"| {what} | {figure} | {asked} |", flush=True)


def imports(o):
    """Import, beyond that of NumPy, and until the library is loaded."""
    script = ("import time, numpy; a = time.perf_counter(); import tstream; "
              "b = time.perf_counter(); tstream.__version__; print(b - a, time.perf_counter() - a)")
    times = [[float(x) for x in subprocess.check_output([sys.executable, "-c", script]).split()]
             for _ in range(o.turns)]
    package, library = map(statistics.median, zip(*times))
    row("`import tstream` after `import numpy`", f"{package:.3f} s", "0.15 s")
    row("the same, with the library loaded", f"{library:.3f} s")


def categories(o):
    """A data frame with texts, as categories and as they are."""
    if not has("pandas"):
        return
    import numpy as np
    import pandas as pd

    import tstream as ts
    rng = np.random.default_rng(1)
    n = 1_000_000
    names = np.array([f"user {k:05d}" for k in range(20_000)])[rng.integers(0, 20_000, n)]
    frame = pd.DataFrame({"name": pd.Categorical(names), "day": rng.integers(0, 365, n),
                          "value": rng.random(n)})
    plain = frame.assign(name=names)

    def build(table):
        ts.from_frame(table, ["name", "day"], value="value").close()

    cores = len(os.sched_getaffinity(0))
    times = turns(max(3, o.turns // 3), categories=lambda: build(frame), text=lambda: build(plain))
    for kind, asked in (("categories", "0.25 s" if cores == 2 else ""), ("text", "")):
        row(f"`from_frame` of 1 M rows, 20,000 names as {kind}, {cores} cores",
            "{:.2f} s, {:.2f} s of processors".format(*times[kind]), asked)


def tables(o):
    """Rows of numbers in Parquet, beside the same rows as text."""
    if not has("pyarrow"):
        return
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    import tstream as ts
    rng = np.random.default_rng(2)
    n = 4_000_000
    sizes = {"user": 100_000, "item": 10_000, "day": 1_000}
    table = pa.table({**{name: rng.integers(0, size, n) for name, size in sizes.items()},
                      "value": rng.integers(1, 100, n) / 4})
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        paths = {kind: os.path.join(folder, f"rows.{kind}") for kind in ("parquet", "csv", "tns")}
        pa.parquet.write_table(table, paths["parquet"])
        pa.csv.write_csv(table, paths["csv"])
        pa.csv.write_csv(table, paths["tns"],
                         pa.csv.WriteOptions(include_header=False, delimiter=" "))
        modes = {"modes": list(sizes), "value": "value"}
        out = os.path.join(folder, "rows.tsh")

        def read():
            for batch in pa.parquet.ParquetFile(paths["parquet"]).iter_batches(1 << 18):
                for column in batch.columns:
                    column.to_numpy()

        times = turns(
            max(3, o.turns // 5), read=read,
            parquet=lambda: ts.from_frame(paths["parquet"], out=out, replace=True, **modes).close(),
            csv=lambda: ts.build(paths["csv"], out, base=0, replace=True, **modes).close(),
            tns=lambda: ts.build(paths["tns"], out, base=0, replace=True).close())
    rate = {kind: n / times[kind][0] for kind in times}
    text = max(rate["csv"], rate["tns"])
    row(f"4 M rows of numbers from Parquet, {cores} cores",
        f"{rate['parquet'] / 1e6:.2f} M rows/s, {rate['parquet'] / text:.2f} of text",
        "1 of text" if cores == 2 else "20 M rows/s" if cores >= 16 else "")
    for kind, what in (("csv", "CSV"), ("tns", "text of indices")):
        row(f"the same rows from {what}, {cores} cores", f"{rate[kind] / 1e6:.2f} M rows/s")
    row(f"pyarrow alone reads the Parquet file, {cores} cores", f"{rate['read'] / 1e6:.2f} M rows/s")


def aminoacid(path):
    """The array of a file of text, or one of its shape: three components and noise."""
    import numpy as np
    rng = np.random.default_rng(3)
    if path is None:
        parts = [rng.random((size, 3)) for size in (5, 201, 61)]
        whole = np.einsum("ir,jr,kr->ijk", *parts)
        return whole + 0.01 * rng.standard_normal(whole.shape)
    lines, x = np.loadtxt(path), np.zeros((5, 201, 61))
    x[tuple(lines[:, :3].astype(int).T - 1)] = lines[:, 3]
    return x


def arrays(o):
    """Dense arrays from call to model, beside TensorLy's parafac from the same start."""
    import numpy as np

    import tstream as ts
    rng = np.random.default_rng(4)
    drawn = "" if o.aminoacid else " (drawn)"
    for what, x, rank, sweeps in (("100 x 100 x 100", rng.random((100, 100, 100)), 10, 25),
                                  (f"aminoacid{drawn}", aminoacid(o.aminoacid), 3, 100)):
        start = [rng.random((size, rank)) for size in x.shape]
        made = {}

        def ours():
            made["tstream"] = ts.cp(x, rank, init=(None, start), precision="float64", cpu=True,
                                    sweeps=sweeps, tol=0, threads=2, progress=False)

        functions = {"tstream": ours}
        if has("tensorly"):
            from tensorly.cp_tensor import CPTensor
            from tensorly.decomposition import parafac

            def theirs():
                made["tensorly"] = parafac(x, rank, init=CPTensor((None, [f.copy() for f in start])),
                                           n_iter_max=sweeps, tol=0)

            functions["tensorly"] = theirs
        for function in functions.values():
            function()  # what is loaded once
        times = turns(o.turns, **functions)
        size = np.linalg.norm(x)
        m = made["tstream"]
        whole = np.einsum("r,ir,jr,kr->ijk", m.weights, *m.factors)
        error = {"tstream": np.linalg.norm(x - whole) / size}
        figure = f"{1e3 * times['tstream'][0]:.1f} ms"
        if "tensorly" in times:
            error["tensorly"] = np.linalg.norm(x - made["tensorly"].to_tensor()) / size
            figure += (f", TensorLy {1e3 * times['tensorly'][0]:.1f} ms, ratio "
                       f"{times['tstream'][0] / times['tensorly'][0]:.2f}; relative errors differ "
                       f"by {abs(error['tstream'] - error['tensorly']):.1e}")
        row(f"`cp` of {what}, rank {rank}, {sweeps} sweeps, float64, two threads", figure,
            "ratio 1.2")


def statements(source):
    """Number of statements of a program; a docstring is none."""
    found = [x for x in ast.walk(ast.parse(source)) if isinstance(x, ast.stmt)]
    return sum(not (isinstance(x, ast.Expr) and isinstance(x.value, ast.Constant)) for x in found)


def notebooks(o):
    """Statements of each notebook up to its comparison, beside the same analysis by its peer."""
    folder = os.path.join(HERE, "peers")
    for name in sorted(os.listdir(folder)):
        stem, end = os.path.splitext(name)
        if end != ".py":
            continue
        with open(os.path.join(HERE, "..", "examples", stem + ".ipynb"), encoding="utf-8") as file:
            cells = json.load(file)["cells"]
        own = []
        for cell in cells:
            text = "".join(cell["source"])
            if cell["cell_type"] == "markdown" and text.startswith("The same "):
                break
            if cell["cell_type"] == "code":
                own.append(text)
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            peer = statements(file.read())
        row(f"statements of {stem}.ipynb", f"{statements(chr(10).join(own))}, its peer {peer}",
            "at most those of the peer")


# Name, function, and whether it is measured on --cores as well as on two cores.
PARTS = {"import": (imports, False), "categories": (categories, True), "tables": (tables, True),
         "arrays": (arrays, False), "notebooks": (notebooks, False)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--cores", type=int, default=0)
    parser.add_argument("--aminoacid")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--part", help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.part is not None:
        PARTS[o.part][0](o)
        return
    print("| what | measured | asked |\n|---|---|---|", flush=True)
    usable = sorted(os.sched_getaffinity(0))
    for name in o.only.split(","):
        for cores in (2, o.cores) if PARTS[name][1] and o.cores > 2 else (2,):
            os.sched_setaffinity(0, usable[:cores])
            threads = dict.fromkeys(THREADS, str(min(cores, len(usable))))
            subprocess.run([sys.executable, os.path.abspath(__file__), "--part", name, "--turns",
                            str(o.turns), *(["--aminoacid", o.aminoacid] if o.aminoacid else [])],
                           check=True, env={**os.environ, **threads})


if __name__ == "__main__":
    main()
