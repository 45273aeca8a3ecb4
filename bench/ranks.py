#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a sweep would take on several hosts of four GPUs: a calculation from figures that were measured on one, to be
set beside runs. GPUs do not compute with several processes yet.

    bench/ranks.py [TENSOR.tsh]

A sweep is, mode after mode: the products of the GPU that has most, its part of the row work, and the rows that reach
its host from others. Rows reach all hosts, or (need lists) those that have a nonzero with them in a mode that comes
before their next update. Of a tensor the parts come from its table of shards; of the shapes of Amazon's reviews and
Reddit's comments, whose rows are taken to have nonzeros by a power law, from equal parts. No rows are hidden behind
products; the last column says what were left if they were hidden as far as they can be.
"""
import math
import struct
import sys

RANK, FLOAT = 32, 4
NNZ_NS = 0.1896 / 3 / 1.738041453  # one H200, R = 32, shape of Amazon's reviews: 0.1896 s of MTTKRPs a sweep
ROW_NS = 2.8e6 / 8400583  # and 2.8 ms of row work
UNEVEN = 1.015  # slowest GPU over mean
GPUS = 4  # of a host
HOST_LINK = 300e9  # bytes a second that reach a GPU from others of its host: copies of 256 MiB
NETWORK = 50e9  # bytes a second that reach a host

SHAPES = (
    ("amazon, law 0.8", (4821207, 1774269, 1805187), 1738041453, 0.8),
    ("amazon, law 1.1", (4821207, 1774269, 1805187), 1738041453, 1.1),
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


def largest(shards, n):
    """The largest share of nonzeros and of rows when n ranges of equal cost (src/stream/balance.c) are cut."""
    cost = [c + 5.0 * (rows - 1) for c, rows in shards]
    step, at, room = sum(cost) / n, 0, 0.0
    parts = [[0.0, 0.0] for _ in range(n)]
    for (c, rows), own in zip(shards, cost):
        left = own
        while left > 1e-9 * own:
            if room <= 1e-9 * step:
                room, at = step, at + 1
            now = min(left, room)
            part = parts[min(at, n) - 1]
            part[0] += c * now / own
            part[1] += rows * now / own
            left, room = left - now, room - now
    return max(p[0] for p in parts) / sum(p[0] for p in parts), max(p[1] for p in parts) / sum(p[1] for p in parts)


def sweep(nnz, modes, law, hosts):
    """Seconds: computing, rows to all hosts, rows to those that need them, and what hiding leaves of the former."""
    computing = to_all = to_needing = left = 0.0
    for rows, shards in modes:
        of_nnz, of_rows = largest(shards, hosts * GPUS)
        own = (UNEVEN * nnz * of_nnz * NNZ_NS + rows * of_rows * ROW_NS) * 1e-9
        row_bytes = rows * RANK * FLOAT
        within = row_bytes * (1 - 1 / GPUS) / HOST_LINK if hosts == 1 else 0  # hidden, and less than the network's
        network = row_bytes * (1 - 1 / hosts) / NETWORK
        computing += own
        to_all += network
        to_needing += network * needed(rows, nnz, law, 1 - (1 - 1 / hosts) ** (len(modes) - 1))
        left += max(0, max(network, within) - own)
    return computing, to_all, to_needing, left


def table(name, nnz, modes, law):
    print(f"{name}: {' x '.join(str(rows) for rows, _ in modes)}, {nnz / 1e9:.3f} G nonzeros, rank {RANK}")
    print("  hosts  computing  rows to all  a sweep  need lists  a sweep  hidden")
    for hosts in (1, 2, 4, 8, 16, 32, 64):
        own, to_all, to_needing, left = sweep(nnz, modes, law, hosts)
        print(f"  {hosts:5}  {own * 1e3:6.1f} ms    {to_all * 1e3:6.1f} ms {(own + to_all) * 1e3:6.1f} ms"
              f"   {to_needing * 1e3:6.1f} ms {(own + to_needing) * 1e3:6.1f} ms {(own + left) * 1e3:6.1f} ms")
    print()


if len(sys.argv) > 1:
    count, parts = shards_of(sys.argv[1].rstrip("/"))
    table(sys.argv[1], count, parts, 1.1)
else:
    for title, dims, count, exponent in SHAPES:
        table(title, count, [(rows, [(count, rows)]) for rows in dims], exponent)
