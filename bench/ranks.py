#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a sweep would take on several hosts, of four GPUs each or of CPU cores: a calculation from figures that were measured on
one, to be set beside runs. On more than one host nobody has run it.

    bench/ranks.py [TENSOR.tsh [LAW]]

A sweep is, mode after mode: the products of the rank that has most, its part of the row work, and the rows that reach
its host from others. Rows reach all hosts, or, mode by mode where that is cheaper, those that have a nonzero with them in one of the
other modes' copies (need lists: src/cpu/ranks/needs.h, whose rule counts what packing takes; GPUs do not have them). Of a tensor the parts come from its table of shards; of the shapes of Amazon's reviews and
Reddit's comments from equal parts. How many hosts need a row comes from a power law of its nonzeros, of a tensor, too: LAW, or 0.8.

GPUs send rows while they compute (src/gpu/team/gpu_ranks.h): "hidden" is what a sweep were if as much were hidden as can be, and runs
lie between it and "a sweep" of all rows. CPU cores send them afterwards; ranks of a host share their factors, so that a row
reaches a host once.
"""
import math
import struct
import sys

RANK, FLOAT = 32, 4
PACKING = 1 / 4  # of a byte that is packed or unpacked, where one that reaches a host takes 1: the rule's, of seven threads and more


class Kind:
    """What a host is: nanoseconds of a nonzero and of a row on one part of it, parts of a host, the slowest of them over the
    mean, bytes a second that reach a host from others, and a part from others of its host."""

    def __init__(self, name, nnz_ns, row_ns, parts, uneven, network, host_link):
        self.name, self.nnz_ns, self.row_ns, self.parts = name, nnz_ns, row_ns, parts
        self.uneven, self.network, self.host_link = uneven, network, host_link


# One H200, R = 32, shape of Amazon's reviews: 0.1896 s of MTTKRPs a sweep and 2.8 ms of row work; copies of 256 MiB within a host.
GPUS = Kind("4 GPUs a host, 50 GB/s", 0.1896e9 / 3 / 1738041453, 2.8e6 / 8400583, 4, 1.015, 50e9, 300e9)
# 16 cores of a Xeon, R = 32, shape of Amazon's reviews with 100 M draws: 349 ms of MTTKRPs a sweep and 75 of row work.
CORES = Kind("16 CPU cores a host, 10 GB/s", 349e6 / 3 / 1e8, 75e6 / 8400583, 1, 1.0, 10e9, None)

AMAZON = (4821207, 1774269, 1805187)
SHAPES = (
    ("amazon, law 0.8", AMAZON, 1738041453, 0.8),
    ("amazon, law 1.1", AMAZON, 1738041453, 1.1),
    ("reddit, law 0.8", (8211298, 176962, 8116559), 4677000000, 0.8),
    ("hypersparse, law 1.1", (17262471, 532924, 2480308, 1443), 140126181, 1.1),
)


def needed(rows, nnz, law, share):
    """Part of a mode's rows that a host needs: the mean of 1 - exp(-count * share) over rows whose counts fall by the
    law, where the share is of the nonzeros that are the host's in any other mode."""
    total = math.log(rows + 1) if law == 1 else ((rows + 1) ** (1 - law) - 1) / (1 - law)
    steps, used, had = 4000, 0.0, 0.0
    for k in range(steps):
        low, high = rows ** (k / steps), rows ** ((k + 1) / steps)
        count = nnz * math.sqrt(low * high) ** -law / total
        used += (high - low) * -math.expm1(-count)  # others have no nonzero at all, and no row
        had += (high - low) * -math.expm1(-count * share)
    return had / used


def shards_of(path):
    """nnz, and for each mode its rows and [nonzeros, rows] of each shard: of an index (docs/format.md)."""
    with open(path + "/index", "rb") as index:
        data = index.read()
    order = struct.unpack_from("<I", data, 12)[0]
    nnz = struct.unpack_from("<Q", data, 24)[0]
    n_dict = struct.unpack_from("<I", data, 80)[0]
    modes, at = [], 256 + 128 * order + 8 * n_dict
    for m in range(order):
        n_rows, n_shards = struct.unpack_from("<QQ", data, 256 + 128 * m + 8)
        entries = [struct.unpack_from("<IIII", data, at + 64 * i + 24) for i in range(n_shards)]
        modes.append((n_rows, [(e[0], e[3] - e[2] + 1) for e in entries]))
        at += 64 * n_shards
    return nnz, modes


def dearest(shards, n, kind):
    """Nanoseconds of the range that takes longest, of n of equal predicted cost (src/stream/balance.c), which are cut inside shards."""
    cost = [c + 5.0 * (rows - 1) for c, rows in shards]
    step, at, room = sum(cost) / n, 0, 0.0
    parts = [0.0] * n
    for (c, rows), own in zip(shards, cost):
        left = own
        while left > 1e-9 * own:
            if room <= 1e-9 * step:
                room, at = step, at + 1
            now = min(left, room)
            parts[min(at, n) - 1] += (kind.uneven * c * kind.nnz_ns + rows * kind.row_ns) * now / own
            left, room = left - now, room - now
    return max(parts)


def sweep(kind, nnz, modes, law, hosts):
    """Seconds: computing, rows to all hosts, rows to those that need them, and what hiding leaves of the former."""
    computing = to_all = to_needing = left = 0.0
    for rows, shards in modes:
        own = dearest(shards, hosts * kind.parts, kind) * 1e-9
        row_bytes = rows * RANK * FLOAT
        within = row_bytes * (1 - 1 / kind.parts) / kind.host_link if hosts == 1 and kind.host_link else 0
        network = row_bytes * (1 - 1 / hosts) / kind.network
        computing += own
        to_all += network
        need = needed(rows, nnz, law, 1 - (1 - 1 / hosts) ** (len(modes) - 1))
        to_needing += network * min(1, need * (1 + 2 * PACKING))
        left += max(0, max(network, within) - own)
    return computing, to_all, to_needing, left


def table(kind, name, nnz, modes, law):
    hides = kind is GPUS
    print(f"{name}, {kind.name}: {' x '.join(str(rows) for rows, _ in modes)}, {nnz / 1e9:.3f} G nonzeros, rank {RANK}")
    print("  hosts   computing  rows to all    a sweep  need lists    a sweep" + ("     hidden" if hides else ""))
    for hosts in (1, 2, 4, 8, 16, 32, 64):
        own, to_all, to_needing, left = sweep(kind, nnz, modes, law, hosts)
        print(f"  {hosts:5}  {own * 1e3:7.1f} ms   {to_all * 1e3:7.1f} ms {(own + to_all) * 1e3:7.1f} ms"
              f"  {to_needing * 1e3:7.1f} ms {(own + to_needing) * 1e3:7.1f} ms"
              + (f" {(own + left) * 1e3:7.1f} ms" if hides else ""))
    print()


if len(sys.argv) > 1:
    count, parts = shards_of(sys.argv[1].rstrip("/"))
    for kind in (GPUS, CORES):
        table(kind, sys.argv[1], count, parts, float(sys.argv[2]) if len(sys.argv) > 2 else 0.8)
else:
    for kind in (GPUS, CORES):
        for title, dims, count, exponent in SHAPES:
            table(kind, title, count, [(rows, [(count, rows)]) for rows in dims], exponent)
