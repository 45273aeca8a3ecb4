#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The picture of the README: how long a sweep takes, beside other programs.

    docs/sweeps.py docs/sweeps.tsv > docs/sweeps.svg

A bar is the time of a sweep divided by tstream's on the same tensor and machine; the time itself stands
behind it. Colours follow the reader's light or dark scheme; the card has a ground of its own, so that
it can be read on either where a viewer does not tell the scheme.
"""
import sys
from html import escape

WIDTH, LEFT, RIGHT = 760, 92, 64
BAR, GAP, TENSOR, MACHINE = 13, 3, 24, 30  # heights: a bar, between bars, a tensor's name, a machine's

STYLE = """
  .card { fill: #ffffff; stroke: #d0d7de }
  text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
  .machine { font-weight: 600; font-size: 13px }
  .tensor, .note { fill: #59636e }
  .name { text-anchor: end }
  .ours { fill: #0969da }
  .theirs { fill: #afb8c1 }
  .one { stroke: #0969da; stroke-dasharray: 2 3 }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117; stroke: #3d444d }
    text { fill: #f0f6fc }
    .tensor, .note { fill: #9198a1 }
    .ours { fill: #4493f8 }
    .theirs { fill: #565f69 }
    .one { stroke: #4493f8 }
  }
"""


def read(path):
    """[(machine, [(tensor, nonzeros, [(program, ms or None)])])], in the order of the file."""
    machines = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.startswith("#") or not line.strip():
                continue
            words = line.rstrip("\n").split("\t")
            if len(words) != 5:
                sys.exit(f"{path}:{number}: {len(words)} columns, expected 5")
            machine, tensor, nnz, program, ms = words
            if not machines or machines[-1][0] != machine:
                machines.append((machine, []))
            tensors = machines[-1][1]
            if not tensors or tensors[-1][0] != tensor:
                tensors.append((tensor, nnz, []))
            tensors[-1][2].append((program, None if ms == "-" else ms))
    return machines


def draw(machines):
    most = max(float(ms) / float(rows[0][1]) for _, tensors in machines for _, _, rows in tensors
               for _, ms in rows if ms is not None)
    unit = (WIDTH - LEFT - RIGHT) / most
    out, y = [], 26
    out.append(f'<text class="machine" x="16" y="{y}">Time of a sweep at rank 32; tstream = 1, '
               'shorter is better</text>')
    for machine, tensors in machines:
        y += MACHINE
        out.append(f'<text class="machine" x="16" y="{y}">{escape(machine)}</text>')
        for tensor, nnz, rows in tensors:
            y += TENSOR
            out.append(f'<text class="tensor" x="{LEFT}" y="{y - 6}">{escape(tensor)}: '
                       f'{escape(nnz if "draws" in nnz else nnz + " nonzeros")}</text>')
            top = y
            for program, ms in rows:
                base = y + BAR - 3
                out.append(f'<text class="name" x="{LEFT - 8}" y="{base}">{escape(program)}</text>')
                if ms is None:
                    out.append(f'<text class="note" x="{LEFT + unit + 5:.1f}" y="{base}">does not run '
                               'with five modes</text>')
                else:
                    long = float(ms) / float(rows[0][1]) * unit
                    kind = "ours" if program == rows[0][0] else "theirs"
                    out.append(f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{long:.1f}" '
                               f'height="{BAR}" rx="2"/>')
                    behind = LEFT + max(long, unit) + 5
                    out.append(f'<text x="{behind:.1f}" y="{base}">{ms} ms</text>')
                y += BAR + GAP
            out.append(f'<line class="one" x1="{LEFT + unit:.1f}" y1="{top - 2}" '
                       f'x2="{LEFT + unit:.1f}" y2="{y - GAP + 2}"/>')
    height = y + 16
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
          f'viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="title">')
    print('<title id="title">Time of a sweep of CP-ALS: tstream beside GenTen and ALTO</title>')
    print(f"<style>{STYLE}</style>")
    print(f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>')
    print("\n".join(out))
    print("</svg>")


def main():
    if len(sys.argv) != 2:
        print("usage: sweeps.py FILE.tsv > PICTURE.svg", file=sys.stderr)
        sys.exit(2)
    draw(read(sys.argv[1]))


main()
