# SPDX-License-Identifier: BSD-3-Clause
"""Runs: what :func:`cp` does with its settings."""

import ctypes as c
import logging
import numbers
import os
from types import SimpleNamespace
from typing import Any, Dict, List, Set, Tuple

import numpy as np

from ._checks import integer, integers, is_several, not_negative, real, text
from ._collection import Collection, rows_of
from ._conf import files_of, session_conf
from ._errors import ArgumentError, ArgumentTypeError
from ._lib import (Call, encoded, lib, mode_fn, several_sweep_fn, sweep_fn, ts_cp_conf,
                   ts_cp_result, ts_progress, ts_several_conf, ts_several_result, warn)
from ._losses import OPTIMIZERS, POISSON, loss_of
from ._model import Model
from ._modes import bounds_of, mode_bits, penalties
from ._record import recall
from ._seeds import seed_of
from ._starts import starts_of
from ._sweep import Sweep
from ._tensor import as_tensor, columns_of

_Key = Tuple[int, int]  # rank and seed
_LAST = 1 << 20  # TS_SWEEP_LAST of tstream.h
_log = logging.getLogger("tstream")
_log.addHandler(logging.NullHandler())


def progress_bar(sweeps: int) -> Any:
    """A bar of tqdm, where there is one and somebody looks: what takes a sweep."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(total=sweeps, unit="sweep", disable=None)


def _check_types(o: SimpleNamespace) -> None:
    """Numbers and texts are such."""
    for name in ("sweeps", "inner", "patience", "threads"):
        setattr(o, name, integer(name, getattr(o, name), floats=True))
    for name in ("tol", "hold_out_from", "checkpoint", "max_time"):
        if getattr(o, name) is not None:
            setattr(o, name, real(name, getattr(o, name)))
    for name in ("loss", "optimizer", "l2_scale", "rows"):
        text(name, getattr(o, name))
    if o.on_sweep is not None and not callable(o.on_sweep):
        raise ArgumentTypeError(f"on_sweep is of type {type(o.on_sweep).__name__}: a function "
                                "is wanted")


def _models_of(o: SimpleNamespace) -> None:
    """Which models are asked for: `keys`, and whether they are `several`."""
    if not isinstance(o.hold_out, numbers.Real):
        raise ArgumentTypeError(
            f"hold_out={o.hold_out!r}: a share of the cells, 0 or more and below 1")
    o.hold_out = real("hold_out", o.hold_out)
    if o.seed is None and o.resume:
        raise ArgumentError("a run goes on with the seed that it has: give seed")
    o.seed = seed_of(o.seed)
    o.several = o.restarts is not None or is_several(o.rank)
    ranks = integers("rank", o.rank)
    n_seeds = 1 if o.restarts is None else integer("restarts", o.restarts)
    if not ranks or n_seeds < 1 or len(set(ranks)) < len(ranks):
        raise ArgumentError("ranks differ from each other, and there must be at least one, "
                            "and one start of it")
    for what, number in [*(("rank", each) for each in ranks), ("seed", o.seed),
                         ("patience", o.patience), ("threads", o.threads)]:
        not_negative(what, number)
    o.ranks, o.n_seeds = ranks, n_seeds
    o.keys = [(each, start) for each in ranks for start in range(o.seed, o.seed + n_seeds)]


def _check(o: SimpleNamespace) -> None:
    """Refuses settings that the library does not see as they are given, and fills in defaults."""
    o.starts, o.nvecs = None, isinstance(o.init, str) and o.init == "nvecs"
    if o.init is not None and not o.nvecs:
        o.starts = starts_of(o.init, o.keys, o.several)
    if o.several and o.trace is not None:
        raise ArgumentError("a trace is of one model: leave it out where several are computed")
    o.loss_number, o.loss_at = loss_of(o.loss)
    if o.optimizer not in OPTIMIZERS or (o.optimizer != "adam" and o.loss_number <= POISSON):
        raise ArgumentError(f"optimizer is one of {', '.join(OPTIMIZERS)}, "
                            "of losses after 'poisson'")
    if o.inner < 1:
        raise ArgumentError("a row takes at least one round a sweep")
    if o.tol is None:
        o.tol = 1e-5 if o.loss == "least-squares" else 1e-4
    if o.sweeps < 1:
        raise ArgumentError("there must be at least one sweep")
    if not any(o.resume is x or o.resume == x for x in (False, True, "auto")):
        raise ArgumentError("resume is True, False or 'auto'")
    if o.out is not None and not os.fspath(o.out):
        raise ArgumentError("out is empty: the name of a directory is wanted")
    if o.out is None and o.resume:
        raise ArgumentError("a run goes on in the directory that it writes: out is not given")
    if o.tensor.dense and o.loss != "least-squares":
        raise ArgumentError(_of_cells(o))
    if o.tensor.dense and o.hold_out > 0 and o.loss == "least-squares":
        o.observed = True
    if not o.observed and not any(_is_given(x) for x in (o.l1, o.smooth, o.simplex, o.orthogonal,
                                                         o.accelerate)):
        takes = Call().run(lambda err: lib.ts_takes_observed(o.tensor._open(), o.loss_number))
        o.observed = bool(takes)
        # Another loss takes it where all cells are listed, which changes nothing.
        if o.observed and o.loss_number == 0:
            warn("cells of the tensor are unknown or have weights, so observed=True is taken for "
                 "given: pass it to say so")


def _of_cells(o: SimpleNamespace) -> str:
    """Why a dense tensor has no other loss than least squares, and the way."""
    text = (f"loss={o.loss!r}: a dense tensor is decomposed by least squares, and other losses "
            "need a tensor that lists the cells: ")
    holes = Call().run(lambda err: lib.ts_takes_observed(o.tensor._open(), 0))
    if holes and o.loss_number == POISSON:
        return (text + "of this one some are unknown (NaN), and loss='poisson' takes cells that "
                "are not listed for zeros; loss='poisson-log' takes them for unknown, with "
                "observed=True")
    if holes:
        return (text + "build(array, out, zeros='keep', missing='skip') lists those that are not "
                "NaN, for observed=True")
    return text + "build(array, out) does, and zeros='keep' lists zeros, too"


def _is_given(value: Any) -> bool:
    return bool(np.size(value)) if isinstance(value, np.ndarray) and value.ndim else bool(value)


def _constrain(o: SimpleNamespace) -> None:
    """Constraints and penalties, as the library takes them."""
    order, names = o.tensor.order, o.tensor.mode_names
    o.fixed = mode_bits(o.fix, names)
    o.bits, o.sums, o.squares = mode_bits(o.nonneg, names), penalties(o.l1, names, o.fixed), penalties(o.l2, names, o.fixed)
    if isinstance(o.nonneg, (bool, np.bool_)):
        o.bits &= ~o.fixed
    own_rows = o.bits if o.sums is None else o.bits | sum(1 << m for m in range(order) if o.sums[m] > 0)
    own_rows |= o.fixed & 1 << (order - 1)
    o.on_simplex = mode_bits(o.simplex, names)
    o.limits = bounds_of(o.bounds, names, o.fixed)
    o.orthonormal = mode_bits(o.orthogonal, names)
    if isinstance(o.smooth, (int, float)):
        raise ArgumentError("smooth names its modes: {mode: number}, or a number for each")
    o.bends = penalties(o.smooth, names, o.fixed)
    o.bent = 0 if o.bends is None else sum(1 << m for m in range(order) if o.bends[m] > 0)
    own_rows |= o.on_simplex
    if o.limits is not None:
        own_rows |= sum(1 << m for m in range(order) if np.isfinite(o.limits[:, m]).any())
    if o.l2_scale not in ("none", "count"):
        raise ArgumentError("l2_scale is 'none' or 'count'")
    if o.observed and o.squares is None and o.loss == "least-squares":
        o.squares = np.array([0 if o.fixed >> m & 1 else 0.1 for m in range(order)])
    o.own_rows = 0 if o.observed or o.loss != "least-squares" else own_rows


def _address(array: Any) -> Any:
    return None if array is None else array.ctypes.data


class _Run:
    """A run that goes on: its histories, its bar, and what the library calls after a sweep."""

    def __init__(self, o: SimpleNamespace) -> None:
        self.o = o
        self.call = Call()
        self.histories: "Dict[_Key, List[Sweep]]" = {key: [] for key in o.keys}
        self.enough: "Set[_Key]" = set()  # models whose last sweep was asked for
        self.session: Any = None
        self.bar: Any = None

    def swept(self, s: Sweep) -> None:
        o, bar = self.o, self.bar
        self.histories[s.rank, s.seed].append(s)
        if bar is not None:
            bar.set_postfix_str(f"rank {s.rank}, seed {s.seed}" if o.several else f"fit {s.fit:.6f}", refresh=False)
            bar.n = bar.n + 1 if o.several else s.sweep
            bar.refresh()
        _log.info("rank %d, seed %d, %s", s.rank, s.seed, s)
        if o.on_sweep is None or (s.rank, s.seed) in self.enough:
            return
        try:
            o.on_sweep(s)
        except StopIteration:
            self.enough.add((s.rank, s.seed))

    def move_bar(self) -> None:
        place = ts_progress()
        lib.ts_session_progress(self.session, c.byref(place))
        if place.sweep > 0:
            part = place.mode + min(place.done / place.total, 1)
            self.bar.n = round(place.sweep - 1 + part / self.o.tensor.order, 1)
            self.bar.refresh()

    def take_of(self, ctx: Any, number: int, s: Any) -> int:
        key = self.o.keys[number]
        sweep = Sweep.of(s.contents, *key)
        if self.o.on_sweep is None:
            self.call.tell(self.swept, sweep)
            return 0
        stop = self.call.ask(self.swept, sweep)  # what it raises ends the run here
        return _LAST if stop == 0 and key in self.enough else stop

    def take(self, ctx: Any, s: Any) -> int:
        return self.take_of(ctx, 0, s)

    def close_bar(self) -> None:
        if self.bar is not None:
            self.bar.close()

    def cp_conf(self) -> ts_cp_conf:
        o = self.o
        start = None if o.several or o.starts is None or o.starts[0] is None else o.starts[0]._handle
        return ts_cp_conf(
            sweeps=o.sweeps, tol=o.tol, seed=o.seed, sweep=sweep_fn() if o.several else sweep_fn(self.take),
            mode=mode_fn(), start=start, nvecs=o.nvecs,
            max_seconds=o.max_time or 0, out=None if o.out is None else encoded(o.out),
            formats=files_of(o.formats, o.rows), held_rows=o.rows == "used", replace=bool(o.replace),
            save_init=bool(o.save_init), no_labels=bool(o.no_labels), resume={False: 0, True: 1, "auto": 2}[o.resume],
            checkpoint_seconds=o.checkpoint if o.checkpoint > 0 else -1, nonneg=o.bits, fix=o.fixed,
            simplex=o.on_simplex, orthogonal=o.orthonormal, smooth=_address(o.bends),
            lower=None if o.limits is None else o.limits[0].ctypes.data,
            upper=None if o.limits is None else o.limits[1].ctypes.data,
            l1=_address(o.sums), l2=_address(o.squares), accelerate=bool(o.accelerate),
            observed=bool(o.observed), l2_by_count=o.l2_scale == "count", mean=bool(o.mean), hold_out=o.hold_out,
            hold_out_from=o.hold_out_from, patience=o.patience, loss=o.loss_number, inner=o.inner,
            loss_at=o.loss_at, optimizer=OPTIMIZERS.index(o.optimizer))

    def session_conf(self) -> Any:
        o = self.o
        return session_conf(
            self.call, rank=o.ranks[0], precision=o.precision, threads=o.threads, host_memory=o.host_memory,
            cpu=o.cpu, gpus=o.gpus, gpu_memory=o.gpu_memory, checkpoints=o.out is not None and o.checkpoint > 0,
            replace=bool(o.replace), own_rows=o.own_rows, smooth=o.bent, accelerate=bool(o.accelerate),
            observed=bool(o.observed), loss=o.loss_number, optimizer=OPTIMIZERS.index(o.optimizer),
            patience=o.patience > 0, hold_out=o.hold_out > 0, trace=None if o.trace is None else encoded(o.trace))

    def several(self) -> Collection:
        """Models of several ranks or starts, side by side."""
        o, keys = self.o, self.o.keys
        conf, of_session = self.cp_conf(), self.session_conf()
        self.bar = progress_bar(o.sweeps * len(keys)) if o.progress else None
        several_conf = ts_several_conf(n_ranks=len(o.ranks), rank=(c.c_uint32 * len(o.ranks))(*o.ranks),
                                       restarts=o.n_seeds, run=c.pointer(conf), sweep=several_sweep_fn(self.take_of))
        if o.starts is not None:
            several_conf.start = (c.c_void_p * len(keys))(*[None if m is None else m._handle for m in o.starts])
        handles, results = (c.c_void_p * len(keys))(), (ts_several_result * len(keys))()
        results[0].size = c.sizeof(ts_several_result)
        try:
            self.call.run(lib.ts_cp_several, o.tensor._open(), c.byref(of_session), c.byref(several_conf), handles,
                          results)
        finally:
            self.close_bar()
        models = {key: Model(handle, o.tensor) for key, handle in zip(keys, handles)}
        for key, result in zip(keys, results):
            models[key].history, models[key].loss = self.histories[key], o.loss
            models[key].observed = bool(o.observed)
            models[key].converged, models[key].exact = bool(result.converged), bool(result.exact)
            models[key].sweeps_before, models[key]._fit = result.sweeps_before, result.fit
            models[key].mean = result.mean if o.mean else None
            models[key].best_sweep = result.best_sweep or None
            if not self.histories[key] and o.out is not None:  # an earlier run finished it
                folder = os.path.join(os.fsdecode(o.out), f"r{key[0]}.s{key[1]}")
                record = recall(folder, models[key].rank) or {}
                for name in ("mean", "best_sweep"):
                    setattr(models[key], name, record.get(name))
        return Collection(models, rows_of(results))

    def one(self) -> Model:
        o = self.o
        conf, of_session = self.cp_conf(), self.session_conf()
        self.bar = progress_bar(o.sweeps) if o.progress else None
        handle = o.tensor._open()  # for as long as the session
        self.session = self.call.run(lib.ts_session_open, handle, c.byref(of_session))
        ended = ts_cp_result()
        if self.bar is not None:
            self.call.idle = self.move_bar
        try:
            model = Model(self.call.run(lib.ts_cp, self.session, c.byref(conf), c.byref(ended)), o.tensor)
        finally:
            self.call.idle = None  # it asks the session, which is closed
            self.close_bar()
            lib.ts_session_close(self.session)
        model.history, model.loss = self.histories[o.keys[0]], o.loss
        model.observed = bool(o.observed)
        model.converged, model.exact = bool(ended.converged), bool(ended.exact)
        model.sweeps_before, model._fit = ended.sweeps_before, ended.fit
        model.mean = ended.mean if o.mean else None
        model.best_sweep = ended.best_sweep or None
        return model


def compute(**settings: Any) -> Any:
    """What :func:`cp` does, with all of its settings."""
    o = SimpleNamespace(**settings)
    o.tensor = as_tensor(o.tensor, memory=o.host_memory, **columns_of(settings))
    _check_types(o)
    _models_of(o)
    _check(o)
    _constrain(o)
    run = _Run(o)
    return run.several() if o.several else run.one()
