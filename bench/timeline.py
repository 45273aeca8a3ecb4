#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws one mode of a `tstream cp --trace` as an SVG, to see what hides behind what.

    tstream cp X.tsh --gpus 4 --trace cp.json
    bench/timeline.py cp.json[.gz] SWEEP MODE > timeline.svg

SWEEP and MODE count from 1; SWEEP may be `last`. Sweeps are those of the trace.

A picture is a few hundred pixels wide and a trace has thousands of events in a mode. Copies, kernels
and reads are therefore drawn as how many of them were at work, averaged over a column of one pixel;
solves and exchanges, of which there are few, as bars of at least a pixel. Exchange during which that
GPU computes nothing has a colour of its own: it is what the rest of the mode failed to hide.
"""
import gzip
import json
import sys

LEFT, PLOT, RIGHT = 112, 818, 70  # pixels: names, time, how much of it a lane was busy
COLOURS = {  # of middle lightness: they stand out from white and from black
    "copy": "#3b82d6", "kept": "#b98a2c", "kernel": "#e0b13c", "solve": "#9a63cc",
    "exchange": "#35a06a", "exposed": "#e0524a", "read": "#5f93a8", "step": "#8a8f98",
}
LEGEND = [
    ("copy", "copy to the GPU"), ("kernel", "kernels, streamed shards"), ("kept", "kept shards"),
    ("solve", "rows solved, Gram matrix"), ("exchange", "exchange"),
    ("exposed", "exchange alone"),
]
STYLE = """text{font:12px system-ui,sans-serif;fill:#59606a}
.big{font-size:14px;font-weight:600}.small{font-size:11px}.end{text-anchor:end}.mid{text-anchor:middle}
.grid{stroke:#8a8f98;stroke-opacity:.3;fill:none}.lane{fill:#8a8f98;fill-opacity:.1}
@media(prefers-color-scheme:dark){text{fill:#b4bbc4}}"""


class Refused(Exception):
    """A sentence for whoever called."""


def load(path):
    """The complete events of a trace as (group, lane, what, start us, end us, mode from 1 or None)."""
    try:
        with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as f:
            raw = json.load(f)
    except (OSError, EOFError, ValueError) as e:
        raise Refused(f"{path}: not read as a trace: {e}")
    raw = raw.get("traceEvents", []) if isinstance(raw, dict) else raw
    names = {"process_name": {}, "thread_name": {}}
    for e in raw:
        if e.get("ph") == "M" and e.get("name") in names:
            key = e["pid"] if e["name"] == "process_name" else (e["pid"], e["tid"])
            names[e["name"]][key] = e["args"]["name"]
    return [(names["process_name"].get(e["pid"], ""), names["thread_name"].get((e["pid"], e["tid"]), ""),
             e["name"], e["ts"], e["ts"] + e["dur"], e.get("args", {}).get("mode"))
            for e in raw if e.get("ph") == "X"]


def find(events, sweep, mode):
    """The steps of a mode of a sweep, in order of time, and the number of the sweep."""
    passes, last = [], None
    for e in sorted((e for e in events if e[1] == "modes"), key=lambda e: e[3]):
        if e[5] != last:
            passes.append([])
        passes[-1].append(e)
        last = e[5]
    passes = [p for p in passes if p[0][5] == mode]
    if not passes:
        raise Refused(f"the trace has no mode {mode}")
    number = len(passes) if sweep == "last" else sweep
    if not 1 <= number <= len(passes):
        raise Refused(f"the trace has {len(passes)} sweeps, not {number}")
    return passes[number - 1], number


def union(spans):
    """The same time as disjoint spans in order."""
    out = []
    for a, b in sorted(spans):
        if out and a <= out[-1][1]:
            out[-1][1] = max(out[-1][1], b)
        else:
            out.append([a, b])
    return out


def without(spans, others):
    """What of disjoint spans lies outside of the other ones."""
    out = []
    for a, b in spans:
        for c, d in others:
            if d <= a or c >= b:
                continue
            if c > a:
                out.append([a, c])
            a = max(a, d)
        if a < b:
            out.append([a, b])
    return out


def length(spans):
    return sum(b - a for a, b in spans)


class Picture:
    def __init__(self, start, end):
        self.start, self.end, self.parts, self.y = start, end, [], 0

    def x(self, t):
        return LEFT + PLOT * (t - self.start) / (self.end - self.start)

    def add(self, part):
        self.parts.append(part)

    def text(self, x, y, what, cls=""):
        what = what.replace("&", "&amp;").replace("<", "&lt;")
        self.add(f'<text x="{x:.0f}" y="{y:.0f}" class="{cls}">{what}</text>')

    def clip(self, spans):
        return [(max(a, self.start), min(b, self.end)) for a, b in spans if b > self.start and a < self.end]

    def lane(self, name, height, spans):
        """Background, name, and how much of the time something of the lane was at work."""
        self.add(f'<rect class="lane" x="{LEFT}" y="{self.y}" width="{PLOT}" height="{height}"/>')
        self.text(LEFT - 8, self.y + height / 2 + 4, name, "small end")
        busy = length(union(self.clip(spans))) / (self.end - self.start)
        self.text(LEFT + PLOT + 8, self.y + height / 2 + 4, f"{100 * busy:.0f} %" if busy else "-", "small")

    def area(self, spans, height, most, colour, base=None):
        """The number at work in each column of a pixel, of at most `most`. Returns the columns, and
        stacks them upon `base`, those of another area."""
        column = [0.0] * PLOT
        for a, b in self.clip(spans):
            a, b = self.x(a) - LEFT, self.x(b) - LEFT
            for c in range(int(a), min(int(b) + 1, PLOT)):
                column[c] += max(0.0, min(b, c + 1) - max(a, c))
        top = [c + d for c, d in zip(column, base)] if base else column
        outline = self.outline(top, height, most)
        if base and any(base):
            outline = outline[:-1] + self.outline(base, height, most)
        if any(column):
            self.add(f'<path fill="{COLOURS[colour]}" fill-rule="evenodd" d="{outline}"/>')
        return top

    def outline(self, column, height, most):
        bottom = self.y + height
        path, last = f"M{LEFT} {bottom}", 0.0
        for c, n in enumerate(column + [0.0]):
            up = round(height * min(n / most, 1.0), 1)
            if up != last:
                path += f"H{LEFT + c}V{bottom - up:g}"
                last = up
        return path + "Z"

    def bars(self, spans, height, colour, gap=0.5):
        """Spans as bars of at least a pixel; what is closer than half of one is drawn as one."""
        joined = []
        for a, b in sorted((self.x(a), self.x(b)) for a, b in self.clip(spans)):
            if joined and a - joined[-1][1] < gap:
                joined[-1][1] = max(joined[-1][1], b)
            else:
                joined.append([a, b])
        path = "".join(f"M{a:.1f} {self.y}h{max(b - a, 1):.1f}v{height}h{-max(b - a, 1):.1f}z" for a, b in joined)
        if path:
            self.add(f'<path fill="{COLOURS[colour]}" d="{path}"/>')

    def axis(self, top):
        """Grid and milliseconds, in steps of 1, 2 or 5."""
        whole = (self.end - self.start) * 1e-3
        step = next(s * 10**k for k in range(-3, 7) for s in (1, 2, 5) if whole / (s * 10**k) <= 10)
        for k in range(int(whole / step) + 1):
            x = self.x(self.start + k * step * 1e3)
            self.add(f'<path class="grid" d="M{x:.1f} {top}V{self.y + 4}"/>')
            self.text(x, self.y + 18, f"{k * step:g}" + (" ms" if k == 0 else ""), "small mid")
        self.y += 26

    def svg(self, title):
        width = LEFT + PLOT + RIGHT
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {self.y}" width="{width}" '
                f'height="{self.y}" role="img">\n<title>{title}</title>\n<style>{STYLE}</style>\n'
                + "\n".join(self.parts) + "\n</svg>\n")


def of_gpu(events, gpu):
    """Spans of one GPU by lane; those of kernels apart, streamed and kept."""
    lanes = {"copy": [], "kernel": [], "kept": [], "solve": [], "exchange": []}
    for group, lane, what, a, b, _ in events:
        if group != gpu:
            continue
        if lane.startswith("kernel"):
            lanes["kept" if "kept" in lane or "kept" in what else "kernel"].append((a, b))
        elif lane in lanes:
            lanes[lane].append((a, b))
    return lanes


def most_at_once(spans):
    n = most = 0
    for _, step in sorted([(a, 1) for a, _ in spans] + [(b, -1) for _, b in spans]):
        n += step
        most = max(most, n)
    return max(most, 1)


def kernels_at_once(lanes):
    return most_at_once(lanes["kernel"] + lanes["kept"])


def draw_gpu(p, name, lanes, most):
    p.text(0, p.y + 32, name, "big")
    if lanes["copy"]:
        p.lane("copy", 14, lanes["copy"])
        p.area(lanes["copy"], 14, 1, "copy")
        p.y += 16
    computes = lanes["kernel"] + lanes["kept"]
    p.lane("kernels", 28, computes)
    kept = p.area(lanes["kept"], 28, most, "kept")
    p.area(lanes["kernel"], 28, most, "kernel", kept)
    p.y += 30
    p.lane("solve", 10, lanes["solve"])
    p.bars(lanes["solve"], 10, "solve")
    p.y += 12
    if lanes["exchange"]:
        rows = union(lanes["exchange"])
        p.lane("exchange", 10, rows)
        p.bars(rows, 10, "exchange")
        p.bars(without(rows, union(computes + lanes["solve"])), 10, "exposed", 0)
        p.y += 12
    p.y += 12


def draw(events, sweep, mode):
    steps, number = find(events, sweep, mode)
    start, end = steps[0][3], max(e[4] for e in steps)
    if end <= start:
        raise Refused(f"mode {mode} of sweep {number} took no time")
    events = [e for e in events if e[4] > start and e[3] < end]
    title = f"Mode {mode} of sweep {number}: {(end - start) * 1e-3:.1f} ms"
    p = Picture(start, end)
    p.text(0, 16, title, "big")
    p.text(LEFT + PLOT + 8, 16, "busy", "small")
    p.y = 26
    top = p.y

    p.lane("steps", 16, [(e[3], e[4]) for e in steps])
    for e in steps:
        p.bars([(e[3], e[4])], 16, "step")
        if p.x(e[4]) - p.x(e[3]) > 7 * len(e[2]):
            p.add(f'<text x="{p.x((e[3] + e[4]) / 2):.0f}" y="{p.y + 12}" class="small mid" '
                  f'style="fill:#fff">{e[2]}</text>')
    p.y += 26

    reads = [(e[3], e[4]) for e in events if e[2] == "read"]
    if reads:
        p.lane("disk reads", 20, reads)
        p.area(reads, 20, most_at_once(reads), "read")
        p.y += 30
    gpus = sorted({e[0] for e in events if e[0].startswith("GPU")}, key=lambda g: (len(g), g))
    if not gpus:
        raise Refused(f"mode {mode} of sweep {number} has nothing of a GPU")
    lanes = {gpu: of_gpu(events, gpu) for gpu in gpus}
    most = max(map(kernels_at_once, lanes.values()))  # one scale for all
    for gpu in gpus:
        draw_gpu(p, gpu, lanes[gpu], most)
    p.y -= 8
    p.axis(top)

    x = LEFT
    seen = {lane for gpu in gpus for lane, spans in lanes[gpu].items() if spans}
    seen |= {"exposed"} if "exchange" in seen else set()
    for colour, what in LEGEND:
        if colour in seen:
            p.add(f'<rect fill="{COLOURS[colour]}" x="{x}" y="{p.y + 4}" width="11" height="11"/>')
            p.text(x + 16, p.y + 14, what, "small")
            x += 34 + 6 * len(what)
    p.text(LEFT, p.y + 32, f"The height of kernels is how many run at once, full at {most}; "
           "that of copies, how much of a pixel's time they take.", "small")
    p.y += 18
    p.y += 24
    return p.svg(title)


def main(argv):
    if len(argv) != 4:
        print("usage: timeline.py TRACE.json[.gz] SWEEP|last MODE > PICTURE.svg", file=sys.stderr)
        return 2
    try:
        sweep = argv[2] if argv[2] == "last" else int(argv[2])
        mode = int(argv[3])
    except ValueError:
        print("timeline.py: SWEEP is a number from 1 or `last`, MODE a number from 1", file=sys.stderr)
        return 2
    try:
        sys.stdout.write(draw(load(argv[1]), sweep, mode))
    except Refused as e:
        print(f"timeline.py: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
