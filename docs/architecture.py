#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The picture of docs/architecture.md: the folders of the tree in their layers, and two sequences.

    docs/architecture.py > docs/architecture.svg
    docs/architecture.py --levels      # "base 1", ...: what tests/house/check_layers.sh compares with its own

A layer may include itself and the layers below it. Colours follow the reader's light or dark scheme, as in
sweeps.py.
"""
import sys
from html import escape

# From the top: the boxes of a layer, each a folder, what it is for, and the headers of its seams.
LAYERS = [
    [("tools", ["tshard and tstream: arguments, tables, exit codes;", "the only code that prints or exits"], "api/tools.h"),
     ("python", ["import tstream: the library by ctypes,", "NumPy and pandas"], "")],
    [("api", ["libtstream for C, C++ and Python: sessions, errors, sizes of structs"], "include/tstream.h")],
    [("engine", ["a tensor, a processor, memory and a feed put together for a run"], "")],
    [("cpd", ["methods over any backend: alternating least squares, starts, states, the exact fit"], "")],
    [("build", ["nonzeros of any source,", "sorted and merged,", "to a .tsh directory"], ""),
     ("cpu", ["the backend for", "CPU cores: OpenMP,", "AVX2, AVX-512"], ""),
     ("gpu", ["the backend for CUDA", "devices, one or several:", "kernels, exchange"], ""),
     ("mpi", ["ranks of a run", "on several", "machines"], ""),
     ("model", ["a decomposition as", "an object: weights,", "factors, its files"], "")],
    [("source", ["where nonzeros come from: text, tables", "with names, the generator, a program"],
      "source.h"),
     ("stream", ["shards from disk to backends: the feed,", "its reader and budget; what a backend is"],
      "feed.h, backend.h, row_update.h, comm.h")],
    [("format", ["the bytes on disk and their reader: index, shards, blocks, rows, labels"], "walk.h")],
    [("base", ["errors, options, machine limits, numbers, threads, files that appear whole or not at all"],
      "atomic_out.h")],
]
# Of each sequence, its steps: the folder, and what it does there.
FLOWS = [
    ("tshard build", [("source", "threads parse", "batches"), ("build", "gather: sort, runs", "on disk, merge"),
                      ("build", "number slices,", "code values"), ("build", "for each mode:", "sort, pack, write"),
                      ("format", "NAME.tsh/", "")]),
    ("a sweep of tstream cp", [("format", "NAME.tsh/", ""), ("stream", "the feed lends", "checked shards"),
                               ("cpu | gpu", "product, then", "the row update"),
                               ("cpd", "Gram matrices,", "norms, fit"), ("model", "X.cp/, once", "it ended")]),
]

WIDTH, SIDE, GAP = 760, 16, 8
HEAD, LINE = 20, 15  # heights in a box: the folder's name, a line of text

STYLE = """
  .card { fill: #ffffff; stroke: #d0d7de }
  .box { fill: #f6f8fa; stroke: #afb8c1 }
  .step { fill: #ddf4ff; stroke: #0969da }
  text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
  .folder { font-weight: 600; font-size: 13px }
  .title { font-weight: 600; font-size: 13px }
  .what, .note { fill: #59636e }
  .seam { fill: #0550ae; text-anchor: end; font: 11px ui-monospace, "DejaVu Sans Mono", monospace }
  .arrow { stroke: #59636e; fill: none }
  .tip { fill: #59636e }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117; stroke: #3d444d }
    .box { fill: #151b23; stroke: #3d444d }
    .step { fill: #0b2149; stroke: #4493f8 }
    text { fill: #f0f6fc }
    .what, .note { fill: #9198a1 }
    .seam { fill: #79c0ff }
    .arrow { stroke: #9198a1 }
    .tip { fill: #9198a1 }
  }
"""


def levels():
    """{folder: level}: 1 is the lowest; folders of one level do not include each other."""
    return {box[0]: len(LAYERS) - i for i, layer in enumerate(LAYERS) for box in layer}


def text(kind, x, y, words):
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(words)}</text>'


def box(kind, x, y, width, height):
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4"/>'


def draw_layers(out, y):
    out.append(text("title", SIDE, y, "The layers: a folder includes itself and those below it"))
    y += 12
    for layer in LAYERS:
        width = (WIDTH - 2 * SIDE - GAP * (len(layer) - 1)) / len(layer)
        lines = max(len(what) for _, what, _ in layer)
        height = HEAD + LINE * lines + 6
        for i, (folder, what, seam) in enumerate(layer):
            x = SIDE + i * (width + GAP)
            out.append(box("box", x, y, width, height))
            out.append(text("folder", x + 8, y + 16, folder))
            for n, line in enumerate(what):
                out.append(text("what", x + 8, y + HEAD + 12 + LINE * n, line))
            if seam:
                out.append(text("seam", x + width - 8, y + 16, seam))
        y += height + GAP
    return y


def draw_flow(out, y, title, steps):
    arrow = 18
    width = (WIDTH - 2 * SIDE - arrow * (len(steps) - 1)) / len(steps)
    height = HEAD + 2 * LINE + 6
    out.append(text("title", SIDE, y, title))
    y += 8
    for i, (folder, first, second) in enumerate(steps):
        x = SIDE + i * (width + arrow)
        out.append(box("step", x, y, width, height))
        out.append(text("folder", x + 8, y + 16, folder))
        out.append(text("what", x + 8, y + HEAD + 12, first))
        out.append(text("what", x + 8, y + HEAD + 12 + LINE, second))
        if i > 0:
            middle = y + height / 2
            out.append(f'<path class="arrow" d="M{x - arrow + 2:g} {middle:g}H{x - 6:g}"/>')
            out.append(f'<path class="tip" d="M{x - 2:g} {middle:g}l-6 -4v8z"/>')
    return y + height


def draw():
    out = []
    y = draw_layers(out, 28) + 16
    for title, steps in FLOWS:
        y = draw_flow(out, y, title, steps) + 24
    height = y - 8
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:g}" '
          f'viewBox="0 0 {WIDTH} {height:g}" role="img" aria-labelledby="title">')
    print('<title id="title">The folders of tstream in their layers, and the sequences of a build and of a '
          'sweep</title>')
    print(f"<style>{STYLE}</style>")
    print(f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:g}" rx="8"/>')
    print("\n".join(line for line in out if line is not None))
    print("</svg>")


def main():
    if sys.argv[1:] == ["--levels"]:
        for folder, level in levels().items():
            print(folder, level)
    elif len(sys.argv) == 1:
        draw()
    else:
        print("usage: architecture.py [--levels]", file=sys.stderr)
        sys.exit(2)


main()
