# SPDX-License-Identifier: BSD-3-Clause
"""Two or three properties of a tensor at once, in random tensors, and random consumers of each.

combine_properties.py BIN TABLE SECONDS SEED [NUMBER]: in an empty folder. Each case is a tensor drawn by seed and number; what
reads it is compared with float64 twins as in check_properties.py. A cell is refused where the table refuses one of the properties,
or where the tensor that was drawn asks for it; all else is right. With NUMBER that case alone, by all consumers.
"""
import os
import random
import sys
import time

from property_consumers import CONSUMERS, check_cell, read_table, split_cells
from property_tensors import given_model, here, make, set_shape

here.bin, TABLE, SECONDS, SEED = sys.argv[1:5]
ONLY = sys.argv[5:]
SLOW = ("mpi", "python")  # to start
KEPT = ("duplicates", "zeros", "weights", "labels", "part", "float64")


# ---- a random tensor ----

def draw_shape(rng):
    while True:
        shape = [rng.randint(1, 6) for _ in range(rng.choice([2, 3, 3, 3, 4]))]
        cells = 1
        for n in shape:
            cells *= n
        if 4 <= cells <= 150:
            return shape


def draw_value(rng, kind):
    return {"counts": lambda: float(rng.randint(1, 6)), "constant": lambda: 3.0, "coded": lambda: rng.choice([0.5, 2.25, 7.75]),
            "signed": lambda: float(rng.choice([-4, -2, -1, 1, 3])), "reals": lambda: rng.randint(1, 400) / 8.0}[kind]()


def compact(known):
    """The cells with the indices that are used, counted."""
    used = [sorted({k[0][m] for k in known}) for m in range(len(here.shape))]
    set_shape([len(u) for u in used])
    return [(tuple(u.index(i) for u, i in zip(used, c)), x, w) for c, x, w in known]


def draw_tensor(rng):
    """properties, and a word on the values"""
    set_shape(draw_shape(rng))
    kind = rng.choice(["counts", "counts", "constant", "coded", "signed", "reals"])
    if rng.random() < 0.25:
        properties = {rng.choice(["dense", "unknown"])}
        known = [(c, draw_value(rng, kind), 1.0) for c in here.cells]
        if rng.random() < 0.3:
            known = [(c, 0.0 if rng.random() < 0.3 else x, w) for c, x, w in known]
        if "unknown" in properties:
            known = rng.sample(known, rng.randint(1, len(known) - 1))
            known.sort()
    else:
        properties = set(rng.sample(KEPT, rng.choice([1, 2, 2, 3])))
        if "weights" in properties:  # which are kept beside values of float32 alone
            properties.discard("float64")
        most = len(here.cells)
        cells = sorted(rng.sample(here.cells, rng.choice([1, most, rng.randint(1, most), rng.randint(1, most)])))
        known = [(c, draw_value(rng, kind), 1.0) for c in cells]
        if "duplicates" in properties:
            known += [(c, draw_value(rng, kind), 1.0) for c in rng.choices(cells, k=rng.randint(1, len(cells)))]
        if "zeros" in properties:
            known = [(c, 0.0 if rng.random() < 0.3 else x, w) for c, x, w in known]
        if "weights" in properties:
            known = [(c, x, rng.choice([0.0, 0.5, 1.0, 2.0, 3.0])) for c, x, _ in known]
        if "labels" in properties:
            known = compact(known)
    return frozenset(properties), kind, known


def is_nothing(t):
    """There is nothing to decompose: no cell counts, or all that do are 0."""
    if t.weighted or t.unknown:
        return not any(w * x for _, x, w in t.known)
    return not any(t.sums.values())


# ---- what it asks of consumers ----

def held_out(t, consumer):
    """The cells that each run holds out, and the others."""
    shares = [(1 / 3, k / 3) for k in range(3)] if "folds" in consumer else []
    shares += [(0.3, 0)] if any(word in consumer for word in ("hold-out", "hold_out", "split", "C select")) else []
    pairs = [split_cells(t, *s) for s in shares]
    return pairs if consumer in ("split", "C select") else [[[k for k in part if k[2] > 0] for part in pair] for pair in pairs]


def asked(t, consumer, reasons):
    """Reasons of this very tensor: data, not properties."""
    values = [x for _, x, _ in t.known]
    if consumer == "C select" and not t.dense and not held_out(t, consumer)[0][0]:
        return ["nothing"]
    if consumer == "C select":
        return []
    if consumer == "split" and not t.dense and not all(kept and out for kept, out in held_out(t, consumer)):
        return ["empty"]
    if consumer == "split" and not t.dense and not all(any(x for _, x, _ in part) for part in held_out(t, consumer)[0]):
        return ["worthless"]
    pairs = held_out(t, consumer)
    none = [] if all(out for _, out in pairs) else ["unseen" if t.dense else "weightless" if "weights" in t.properties else "nobody"]
    none += [] if all(kept for kept, _ in pairs) else ["everyone"]
    if none:  # of several folds which is said first is all the same
        return none
    if "--orthogonal" in consumer and len({c[0] for c, _, _ in t.known}) < 2:
        return ["columns"]
    if "gamma" in consumer and min(values) <= 0 and not t.dense:
        return ["positive"]
    if "bernoulli-logit" in consumer and len(values) == 1:
        return ["alike"]
    return []


DATA = ("nothing", "empty", "worthless", "nobody", "weightless", "unseen", "everyone", "columns", "positive", "alike", "several")  # reasons that are of the values, not of the property


def expected(t, consumer, rows, reasons):
    cells = {rows[consumer][p] for p in t.properties} - {"right", *DATA}
    if "several" in {rows[consumer][p] for p in t.properties} and len(t.sums) < len(t.known):
        cells.add("several")
    return [reasons[c] for c in sorted(cells | set(asked(t, consumer, reasons)))]


def leave_out(t, kind, consumer):
    """Pairs that say nothing."""
    if consumer != "split" and any(kept and not any(x for _, x, _ in kept) for kept, _ in held_out(t, consumer)):
        return True  # all that is learnt from is 0
    if kind == "signed" and ("poisson" in consumer.lower() or consumer == "score, 0 log 0"):
        return True
    return len(here.shape) == 2 and consumer == "select --sum"


def run_case(number, rows, reasons, all_consumers):
    rng = random.Random(f"{SEED} {number}")
    while True:
        properties, kind, known = draw_tensor(rng)
        t = make(properties, known, "x")
        if not is_nothing(t):
            break
    here.given = given_model()
    names = [c for c in CONSUMERS if not leave_out(t, kind, c)]
    if not all_consumers:
        names = rng.sample([c for c in names if c.split()[0] not in SLOW], 4) + (
            rng.sample([c for c in names if c.split()[0] in SLOW], 1) if rng.random() < 0.1 else [])
    wrong = []
    for c in names:
        said = check_cell(c, t, expected(t, c, rows, reasons))
        if said:
            wrong.append(f"case {number} ({'+'.join(sorted(properties))}, {kind}, {'x'.join(map(str, here.shape))}, {len(known)} cells): {c}: {said}")
    return len(names), wrong


def main():
    _, rows, reasons = read_table(TABLE)
    if ONLY:
        n, wrong = run_case(int(ONLY[0]), rows, reasons, True)
        print(*wrong, f"case {ONLY[0]} of seed {SEED}: {n} consumers", sep="\n")
        sys.exit(bool(wrong))
    end, number, pairs, failed = time.monotonic() + float(SECONDS), 0, 0, 0
    while time.monotonic() < end and failed < int(os.environ.get("TS_COMBINE_MOST", "20")):
        n, wrong = run_case(number, rows, reasons, False)
        number, pairs, failed = number + 1, pairs + n, failed + len(wrong)
        for w in wrong:
            print("FAILED:", w[:600], flush=True)
    print(f"{number} tensors of seed {SEED}, {pairs} pairs of properties and consumers, {failed} wrong")
    sys.exit(bool(failed))


main()
