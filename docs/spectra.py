#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The picture of docs/spectra.md: the spectra of three components.

    tstream export amino.cp | docs/spectra.py --table > docs/spectra.tsv
    docs/spectra.py docs/spectra.tsv > docs/spectra.svg

The first command takes the model that the page makes of the amino acid data, and divides each spectrum by its largest
value. Colours follow the reader's light or dark scheme, on a card with a ground of its own, as in sweeps.py.
"""
import csv
import sys

PANELS = (("2", "emission", 250), ("3", "excitation", 240))  # mode, name, nm of its first index
NAMES = ("tryptophan", "tyrosine", "phenylalanine")  # in the order of the weights
WIDTH, TOP, HIGH, FOOT, LEFT, GAP, RIGHT = 760, 62, 190, 48, 44, 44, 20
TITLE = "Spectra that a nonnegative model of rank 3 finds in five samples of three amino acids"

STYLE = """
  .card { fill: #ffffff; stroke: #d0d7de }
  text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 13px }
  .note { fill: #59636e }
  .middle { text-anchor: middle }
  .end { text-anchor: end }
  .axis { stroke: #afb8c1; fill: none }
  .grid { stroke: #eaeef2; fill: none }
  .curve { fill: none; stroke-width: 2; stroke-linejoin: round }
  .c1 { stroke: #0969da } .c2 { stroke: #bc4c00 } .c3 { stroke: #1a7f37 }
  .n1 { fill: #0969da } .n2 { fill: #bc4c00 } .n3 { fill: #1a7f37 }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117; stroke: #3d444d }
    text { fill: #f0f6fc }
    .note { fill: #9198a1 }
    .axis { stroke: #565f69 }
    .grid { stroke: #21262d }
    .c1 { stroke: #4493f8 } .c2 { stroke: #f0883e } .c3 { stroke: #3fb950 }
    .n1 { fill: #4493f8 } .n2 { fill: #f0883e } .n3 { fill: #3fb950 }
  }
"""


def table(lines):
    """The spectra among the lines of tstream export, each divided by its largest value."""
    rows = list(csv.DictReader(lines))
    print("# SPDX-License-Identifier: BSD-3-Clause")
    print("# tstream export amino.cp | docs/spectra.py --table: what docs/spectra.py draws")
    print("# spectrum\tnm\t" + "\t".join(f"component {k + 1}" for k in range(len(NAMES))))
    for mode, name, first in PANELS:
        columns = [[float(row[f"component_{k + 1}"]) for row in rows if row["mode"] == mode] for k in range(len(NAMES))]
        for i, values in enumerate(zip(*columns)):
            print(f"{name}\t{first + i}\t" + "\t".join(f"{v / max(c):.4f}" for v, c in zip(values, columns)))


def read(path):
    """{spectrum: [(nm, [value of each component])]}"""
    spectra = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if not line.startswith("#"):
                name, nm, *values = line.split("\t")
                spectra.setdefault(name, []).append((int(nm), [float(v) for v in values]))
    return spectra


def draw_panel(out, name, points, left, width):
    low, high = points[0][0], points[-1][0]

    def x(nm):
        return left + (nm - low) / (high - low) * width

    def y(value):
        return TOP + (1 - value) * HIGH

    step = 10 if high - low < 100 else 50
    for value in (0, 0.5, 1):
        out.append(f'<line class="{"grid" if value else "axis"}" x1="{left}" y1="{y(value):.1f}" x2="{left + width:.1f}" y2="{y(value):.1f}"/>')
        out.append(f'<text class="note end" x="{left - 7}" y="{y(value) + 4:.1f}">{value:g}</text>')
    for nm in range(low, high + 1, step):
        out.append(f'<line class="axis" x1="{x(nm):.1f}" y1="{y(0):.1f}" x2="{x(nm):.1f}" y2="{y(0) + 4:.1f}"/>')
        out.append(f'<text class="note middle" x="{x(nm):.1f}" y="{y(0) + 18:.1f}">{nm}</text>')
    out.append(f'<text class="middle" x="{left + width / 2:.1f}" y="{y(0) + 36:.1f}">{name}, nm</text>')
    for k in range(len(NAMES)):
        curve = " ".join(f"{x(nm):.1f},{y(values[k]):.1f}" for nm, values in points)
        out.append(f'<polyline class="curve c{k + 1}" points="{curve}"/>')
    peaks = sorted((max(points, key=lambda p: p[1][k])[0], k) for k in range(len(NAMES)))  # pylint: disable=cell-var-from-loop
    before = 0
    for nm, k in peaks:  # each over its peak, unless that is where the one before stands
        at = max(x(nm), before + 30)
        out.append(f'<text class="n{k + 1} middle" x="{at:.1f}" y="{y(1) - 6:.1f}">{nm}</text>')
        before = at


def draw(spectra):
    width = (WIDTH - LEFT - GAP - RIGHT) / 2
    height = TOP + HIGH + FOOT
    out = [f'<text class="title" x="16" y="24">{TITLE}</text>']
    for place, (_, name, _) in enumerate(PANELS):
        draw_panel(out, name, spectra[name], round(LEFT + place * (width + GAP), 1), width)
    at = LEFT + width - 6
    for k, name in enumerate(NAMES):
        out.append(f'<text class="n{k + 1} end" x="{at:.1f}" y="{TOP + 20 + 17 * k}">{k + 1} {name}</text>')
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
          'role="img" aria-labelledby="title">')
    print(f'<title id="title">{TITLE}: emission and excitation, each divided by its largest value</title>')
    print(f"<style>{STYLE}</style>")
    print(f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>')
    print("\n".join(out))
    print("</svg>")


def main():
    if len(sys.argv) != 2:
        print("usage: spectra.py --table < EXPORT.csv > FILE.tsv, or spectra.py FILE.tsv > PICTURE.svg", file=sys.stderr)
        sys.exit(2)
    if sys.argv[1] == "--table":
        table(sys.stdin)
    else:
        draw(read(sys.argv[1]))


main()
