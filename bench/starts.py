#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What --init nvecs is worth beside random starts: the table of
bench/notebook/2026-11-22-singular-vectors.md.

    bench/starts.py DIR_OF_PROGRAMS TENSOR.tns.gz... [-- OPTION...]

Each tensor is decomposed at ranks 8, 16 and 32 from three starts of each kind, 100 sweeps each. One CPU core; sweeps are
counted, so other work on the machine does not matter. The start of singular vectors takes about two sweeps more. Options behind --
go to each run.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile

RANKS, SEEDS, SWEEPS, NEAR = (8, 16, 32), (1, 2, 3), 100, 0.999


def fits(bin_dir, tensor, *options):
    """The fit of each sweep."""
    out = subprocess.run([os.path.join(bin_dir, "tstream"), "cp", tensor, "--cpu", "-t", "1", "-n", "--json", *options],
                         check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    events = [json.loads(line) for line in out.splitlines()]
    return [e["fit"] for e in events if e["event"] == "sweep"]


def sweeps_to(run, fit):
    """Sweeps until a fit is reached; None: it is not."""
    return next((k + 1 for k, f in enumerate(run) if f >= fit), None)


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def main():
    bin_dir, files = os.path.abspath(sys.argv[1]), sys.argv[2:]
    more = []
    if "--" in files:
        more = files[files.index("--") + 1:]
        files = files[:files.index("--")]
    ratios = []
    row("tensor", "sweeps to 0.999 of what both reach: random", "nvecs", "ratio: median", "least", "largest",
        f"mean fit after {SWEEPS}: random", "nvecs", "best: random", "nvecs")
    row(*["---"] * 10)
    with tempfile.TemporaryDirectory() as tmp:
        for path in files:
            name = os.path.basename(path).split(".")[0]
            tensor = os.path.join(tmp, name + ".tsh")
            subprocess.run([os.path.join(bin_dir, "tshard"), "build", path, "-o", tensor, "-q"], check=True,
                           stderr=subprocess.DEVNULL)
            own, sweeps, means, bests = [], ([], []), ([], []), ([], [])
            for rank in RANKS:
                runs = [[fits(bin_dir, tensor, "-r", str(rank), "-s", str(seed), "--tol", "0", "-i", str(SWEEPS),
                              "--init", kind, *more) for seed in SEEDS] for kind in ("random", "nvecs")]
                for k in (0, 1):
                    means[k].append(statistics.mean(run[-1] for run in runs[k]))
                    bests[k].append(max(run[-1] for run in runs[k]))
                for pair in zip(*runs):
                    near = NEAR * min(max(pair[0]), max(pair[1]))
                    at = [sweeps_to(run, near) for run in pair]
                    sweeps[0].append(at[0])
                    sweeps[1].append(at[1])
                    own.append(at[1] / at[0])
            row(name, statistics.median(sweeps[0]), statistics.median(sweeps[1]), f"{statistics.median(own):.2f}",
                f"{min(own):.2f}", f"{max(own):.2f}", *(f"{statistics.mean(x):.5f}" for x in (*means, *bests)))
            ratios += own
            subprocess.run(["rm", "-r", tensor], check=True)
    row("all", "", "", f"{statistics.median(ratios):.2f}", f"{min(ratios):.2f}", f"{max(ratios):.2f}", "", "", "", "")


if __name__ == "__main__":
    main()
