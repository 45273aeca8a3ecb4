#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How many sweeps --accelerate saves, and what fits runs end with: the tables of
bench/notebook/2026-11-22-accelerated.md.

    bench/accelerate.py DIR_OF_PROGRAMS TENSOR.tns.gz... [-- OPTION_OF_CP...]

Each tensor is decomposed at ranks 8, 16 and 32 from three starts, plain and accelerated: 150 sweeps, and with the
default --tol, at most 500. One CPU core; sweeps are counted, so other work on the machine does not matter. Where options ask for
penalties, 1 - sqrt(2 F) / |X| takes the place of the fit, F being what is minimised.
"""
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

RANKS, SEEDS, SWEEPS, NEAR = (8, 16, 32), (1, 2, 3), 150, 0.999


def norm_of(bin_dir, tensor):
    return json.loads(subprocess.run([os.path.join(bin_dir, "tshard"), "info", "--json", tensor], check=True, stdout=subprocess.PIPE, text=True).stdout)["norm"]


def fits(bin_dir, tensor, *options):
    """The fit of each sweep, or what takes its place."""
    out = subprocess.run([os.path.join(bin_dir, "tstream"), "cp", tensor, "--cpu", "-t", "1", "-n", "--json", *options],
                         check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    events = [json.loads(line) for line in out.splitlines()]
    sweeps = [e for e in events if e["event"] == "sweep"]
    if sweeps[0]["objective"] is None:
        return [e["fit"] for e in sweeps]
    norm = norm_of(bin_dir, tensor)
    return [1 - math.sqrt(2 * e["objective"]) / norm for e in sweeps]


def sweeps_to(run, fit):
    """Sweeps until a fit is reached; None: it is not."""
    return next((k + 1 for k, f in enumerate(run) if f >= fit), None)


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def main():
    bin_dir, files, asked = os.path.abspath(sys.argv[1]), sys.argv[2:], []
    if "--" in files:
        asked = files[files.index("--") + 1:]
        files = files[:files.index("--")]
    all_ratios, all_best, ended = [], [], []
    row("tensor", "plain", "accelerated", "ratio: median", "largest", f"best fit after {SWEEPS}: mean change",
        "better, worse by 0.1 %", "reach the best known", "ratio there: median", "largest")
    row(*["---"] * 10)
    with tempfile.TemporaryDirectory() as tmp:
        for path in files:
            name = os.path.basename(path).split(".")[0]
            tensor = os.path.join(tmp, name + ".tsh")
            subprocess.run([os.path.join(bin_dir, "tshard"), "build", path, "-o", tensor, "-q"], check=True,
                           stderr=subprocess.DEVNULL)
            plain, fast, ratios, change, reached, best_ratios = [], [], [], [], [0, 0], []
            ends = [[], [], [], []]  # sweeps and fits, plain and accelerated
            for rank in RANKS:
                runs = []
                for seed in SEEDS:
                    run = ["-r", str(rank), "-s", str(seed), *asked]
                    pair = [fits(bin_dir, tensor, *run, "--tol", "0", "-i", str(SWEEPS), *more)
                            for more in ([], ["--accelerate"])]
                    runs.append(pair)
                    near = NEAR * min(max(pair[0]), max(pair[1]))  # what both reach
                    k = [sweeps_to(p, near) for p in pair]
                    plain.append(k[0])
                    fast.append(k[1])
                    ratios.append(k[1] / k[0])
                    change.append(max(pair[1]) / max(pair[0]) - 1)
                    for i, more in enumerate(([], ["--accelerate"])):
                        run_fits = fits(bin_dir, tensor, *run, "-i", "500", *more)
                        ends[2 * i].append(len(run_fits))
                        ends[2 * i + 1].append(run_fits[-1])
                best = NEAR * max(max(p) for pair in runs for p in pair)
                for pair in runs:
                    k = [sweeps_to(p, best) for p in pair]
                    for i in (0, 1):
                        reached[i] += k[i] is not None
                    if k[0] is not None:
                        best_ratios.append(math.inf if k[1] is None else k[1] / k[0])
            row(name, statistics.median(plain), statistics.median(fast), f"{statistics.median(ratios):.2f}",
                f"{max(ratios):.2f}", f"{100 * statistics.mean(change):+.2f} %",
                f"{sum(c > 1e-3 for c in change)}, {sum(c < -1e-3 for c in change)}",
                f"{reached[0]}, {reached[1]} of {len(plain)}", f"{statistics.median(best_ratios or [math.nan]):.2f}",
                f"{max(best_ratios or [math.nan]):.2f}")
            all_ratios += ratios
            all_best += best_ratios
            ended.append((name, ends))
            subprocess.run(["rm", "-r", tensor], check=True)
    row("all", "", "", f"{statistics.median(all_ratios):.2f}", f"{max(all_ratios):.2f}", "", "",
        f"{len(all_best)} plain ones", f"{statistics.median(all_best or [math.nan]):.2f}", f"{max(all_best or [math.nan]):.2f}")
    print()
    row("tensor", "sweeps, plain", "accelerated", "mean fit at the end, plain", "accelerated",
        "lower by 0.1 % or more, of 9")
    row(*["---"] * 6)
    for name, (n0, f0, n1, f1) in ended:
        row(name, statistics.median(n0), statistics.median(n1), f"{statistics.mean(f0):.5f}",
            f"{statistics.mean(f1):.5f}", sum(b < a * (1 - 1e-3) for a, b in zip(f0, f1)))


if __name__ == "__main__":
    main()
