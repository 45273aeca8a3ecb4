# SPDX-License-Identifier: BSD-3-Clause
"""Tensors that grow: what is appended is read by what the tensor says of its build."""

import contextlib
import ctypes as c
import os
import tempfile
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _build, _column, _files, _inputs
from ._build import _Batches, _Build, check_left, count_skipped, is_skipping, write_labels
from ._checks import names_of_columns
from ._frame import _Bins, _column_names, _Mode, _Reader
from ._lib import (ArgumentError, ArgumentTypeError, Array, Error, check, encoded, lib, strings,
                   ts_build_result, ts_error, warn)

_LAST = (1 << 32) - 1  # segment
_TEXT = 4096
_place = ("memory", "tmp", "threads", "shard", "progress", "space_check")
_of_text = ("columns", "text", "separator", "header", "time_unit")


class _Base:
    """What is known of the tensor before it grows. No segment is merged for this."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._first, self._last = self._segment(0), self._segment(_LAST)
        self.order = int(lib.ts_order(self._last))
        self.dim = [int(lib.ts_dim(self._last, m)) for m in range(self.order)]
        self.start = int(lib.ts_first_index(self._last))
        name = [lib.ts_name(self._last, m) for m in range(self.order + 1)]
        self.names = [None if x is None else x.decode(errors="surrogateescape") for x in name]
        self.source = self.option("source")
        if self.source is None:
            self.close()
            raise ArgumentError(
                f"{path}: does not say how it was built, as tensors of an older version: build it "
                "again from all data, to append later")

    def _segment(self, number: int) -> Any:
        err = ts_error()
        return check(lib.ts_open_segment(encoded(self.path), number, c.byref(err)), err)

    def close(self) -> None:
        lib.ts_close(self._first)
        lib.ts_close(self._last)

    def option(self, key: str, mode: int = 0) -> Optional[str]:
        text, err = c.create_string_buffer(_TEXT), ts_error()
        found = check(
            lib.ts_built_with(self._first, key.encode(), mode, _TEXT, text, c.byref(err)), err)
        return text.value.decode(errors="surrogateescape") if found else None

    @property
    def has_columns(self) -> bool:
        """Whether columns of a table have names."""
        return self.source == "arrays" or self.option("header") == "yes"

    def column(self, key: str, mode: int = 0) -> Optional[str]:
        return self.option(key, mode) if self.has_columns else None

    def label(self, mode: int, index: "Sequence[int]") -> "List[Optional[str]]":
        n, err = len(index), ts_error()
        at = np.array(index, dtype=np.uint64)
        ret = (c.c_char_p * (n + 1))()
        check(lib.ts_labels(self._last, mode, n, at.ctypes.data, ret, c.byref(err)), err)
        text = [None if x is None else x.decode(errors="surrogateescape") for x in ret[:n]]
        lib.ts_labels_free(n, ret)
        return text

    def has_labels(self, mode: int) -> bool:
        return self.label(mode, [0]) != [None]

    def labels(self, mode: int) -> "Dict[str, int]":
        """The index of each label of a mode."""
        ret: "Dict[str, int]" = {}
        for at in range(0, self.dim[mode], 1 << 16):
            index = range(at, min(at + (1 << 16), self.dim[mode]))
            for i, label in zip(index, self.label(mode, index)):
                if label is None or label in ret:
                    what = "has no label" if label is None else \
                        f"is called {label!r} as well as index {ret[label]}"
                    raise ArgumentError(f"{self.path}: index {i} of mode {mode} {what}, so names "
                                        "do not tell the indices")
                ret[label] = i
        return ret


class _OldBins(_Bins):
    """Times whose bins go on from those of the tensor."""

    def __init__(self, base: _Base, mode: int, name: Any, width: str, unit: Optional[str]) -> None:
        super().__init__(name, width, unit)
        n = base.dim[mode]
        self.old = -1
        ends = base.label(mode, [0, n - 1])
        for kind in ("iso", "year"):
            bins = _Bins(name, width, kind)
            try:
                at = [bins.number(x or "") for x in ends]
            except Error:
                continue
            if [bins._label(x) for x in at] == ends and at[1] - at[0] == n - 1:
                self.old = at[0]
        if self.old < 0:
            raise ArgumentError(
                f"{base.path}: the labels of mode {name!r} are {ends[0]!r} to {ends[1]!r}, which "
                f"are no bins of {width!r}: bin= must be what it was when the tensor was built")
        self.end, self.ends, self.base = self.old + n, ends, base

    def take(self, column: Any, rows: Any) -> Array:
        indices = super().take(column, rows)
        if self.last >= 0 and self.first < self.old:
            raise ArgumentError(
                f"{self.base.path}: its times of mode {self.name!r} begin with {self.ends[0]}, and "
                f"what is appended with {self._label(self.first)}, which would change all indices: "
                "build it again from all data")
        self.end = max(self.end, self.last + 1)
        return indices - self.old

    def labels(self) -> "Iterator[str]":
        return (self._label(at) for at in range(self.old, self.end))


class _OldMode(_Mode):
    """A column whose whole numbers count as in the files that the tensor was built from."""

    start = 0

    def take(self, column: Any, rows: Any) -> Array:
        indices = super().take(column, rows)
        if self.text or self.start == 0 or indices.size == 0:
            return indices
        indices = indices.astype(np.int64) - self.start
        row = int(indices.argmin())
        if indices[row] < 0:
            raise ArgumentError(f"{rows.say(self.name, row)}: index {indices[row] + self.start}, "
                                f"and those of the tensor start at {self.start}")
        return indices


def _old_mode(base: _Base, mode: int, name: Any, text: bool) -> _Mode:
    """A column of names, or of indices, that goes on from those of the tensor."""
    ret = _OldMode(name, text)
    ret.start = 0 if base.source == "arrays" else base.start
    ret.text = base.has_labels(mode)
    if text and not ret.text:
        raise ArgumentError(f"{base.path}: mode {name!r} has indices and no names, and text= names "
                            "it")
    if ret.text:
        ret.index = base.labels(mode)
        ret.last = base.dim[mode] - 1
    return ret


def _find(names: "Sequence[Any]", text: str) -> Any:
    """The column that is called so."""
    return next((x for x in names if x == text), next((x for x in names if str(x) == text), text))


def _same(path: str, what: str, was: Optional[str], now: Any) -> None:
    if was is not None and now is not None and str(now) != was:
        raise ArgumentError(f"{path}: {what} was {was!r} in the build of the tensor, and is "
                            f"{str(now)!r} here")


def _reader(base: _Base, table: Any, value: Any, weights: Any, modes: Any, text: Any, bin: Any,
            time_unit: Any, missing: str) -> _Reader:
    """Reads tables as the build of the tensor did."""
    names = _column_names(table)
    levels = [x for x in getattr(getattr(table, "index", None), "names", ()) if x is not None]
    names = [*names, *levels]
    chosen = list(modes) if modes is not None else []
    for m in range(base.order) if modes is None else ():
        called = base.column("column", m) or base.names[m]
        if called is None:
            raise ArgumentError(f"{base.path}: its modes have no names: modes=[...] names the "
                                "columns that are modes, in their order")
        chosen.append(_find(names, called))
    if len(chosen) != base.order:
        raise ArgumentError(f"{base.path}: has {base.order} modes, and modes= names {len(chosen)}")
    for m, x in enumerate(chosen if modes is not None else ()):
        _same(base.path, f"the column of mode {m}", base.column("column", m), x)
    known = base.column("value")
    _same(base.path, "value", known, "none" if value == "none" else value)
    value = known if value is None else value
    if value is None:
        raise ArgumentError(f"{base.path}: does not say which column has its values: value= names "
                            "it, and value='none' counts each row as 1")
    value = None if value == "none" else _find(names, value)
    held = base.column("weights")
    _same(base.path, "weights", None if held == "given" else held, weights)
    if weights is None and held == "given":
        raise ArgumentError(f"{base.path}: its cells have weights: weights= names their column")
    if weights is None and held not in (None, "none"):
        weights = _find(names, str(held))
    texts = [text] if not isinstance(text, (list, tuple, set, frozenset)) else list(text)
    widths: "Dict[Any, str]" = dict(bin or {})
    for what, given in (("text", texts), ("bin", list(widths))):
        for x in given:
            if x not in chosen:
                raise ArgumentError(f"{what}: {x!r} is not one of {', '.join(map(repr, chosen))}")
    columns: "List[Union[_Mode, _Bins]]" = []
    for m, x in enumerate(chosen):
        width = base.column("bin", m)
        _same(base.path, f"bin of {x!r}", width, widths.get(x))
        if width is None and x in widths and base.column("field", m) in ("name", "digits"):
            raise ArgumentError(f"{base.path}: bin of {x!r}: the tensor has names there, no times")
        width = widths.get(x, width)
        if width is not None and x in texts:
            raise ArgumentError(f"{base.path}: text={x!r}: the tensor has times there, in bins of "
                                f"{width!r}")
        unit = time_unit.get(x) if isinstance(time_unit, Mapping) else time_unit
        columns.append(_old_mode(base, m, x, x in texts) if width is None else
                       _OldBins(base, m, x, width, unit))
    reader = _Reader(chosen, value, weights, is_skipping(missing), columns)
    reader.chosen = chosen
    return reader


def _of_tables(base: _Base, source: "_inputs.Rows", folder: str, files: "List[Optional[str]]",
               given: "Dict[str, Any]") -> "Tuple[_Reader, Iterator[Any]]":
    """Batches of tables. The files of labels are complete when all were read."""
    tables = iter([source.table]) if source.whole else iter(source.table)
    first = next(tables, None)
    if first is None:
        raise ArgumentError("there is no table to append")
    reader = _reader(base, first, **given)
    for m, mode in enumerate(reader.modes):
        path = os.path.join(folder, f"names{m}")
        files.append(path if mode.text else None)
        if mode.text:
            open(path, "w").close()

    def batches() -> "Iterator[Any]":
        number, table, n = 0, first, 0
        while table is not None:
            coords, values, weights = reader.read(table, None if source.whole else number)
            del table
            n += len(values)
            columns = [values] if weights is None else [values, weights]
            if len(values) > 0:
                yield from _inputs.cut(coords, *columns)
            number, table = number + 1, next(tables, None)
        check_left(n, reader.skipped, reader.first)
        for m, mode in enumerate(reader.modes):
            path = files[m]
            if path is not None:
                write_labels(path, mode.labels() or (), mode=m)

    return reader, batches()


def _of_cells(base: _Base, source: Any, zeros: bool, folder: str,
              files: "List[Optional[str]]") -> "Iterator[Any]":
    """Batches of an array, whose labels are looked up in the tensor."""
    if isinstance(source, _inputs.Batches):
        return iter(source.batches)
    places: "List[Optional[Array]]" = []
    order = source.cells.ndim if isinstance(source, _inputs.Dense) else len(source.shape)
    if order != base.order:
        raise ArgumentError(f"{base.path}: has {base.order} modes, and what is appended {order}")
    for m, x in enumerate(source.modes or ()):
        if x is not None:
            _same(base.path, f"the name of mode {m}", base.names[m], x)
    for m in range(order):
        texts = None if source.labels is None else source.labels[m]
        files.append(None)
        places.append(None)
        if texts is None:
            continue
        if not base.has_labels(m):
            raise ArgumentError(f"{base.path}: mode {m} has indices and no labels, and what is "
                                "appended has some")
        known = base.labels(m)
        places[m] = np.array([known.setdefault(str(x), len(known)) for x in texts], dtype=np.int64)
        files[m] = os.path.join(folder, f"names{m}")
        write_labels(str(files[m]), known, mode=m)
    cells = source.batches if isinstance(source, _inputs.Cells) else _build._listed(
        source.cells, "keep" if zeros else "drop")

    def batches() -> "Iterator[Any]":
        for coords, *numbers in cells:
            columns = coords if isinstance(coords, tuple) else tuple(np.asarray(coords).T)
            yield (tuple(x if p is None else p[np.asarray(x, dtype=np.int64)]
                         for x, p in zip(columns, places)), *numbers)

    return batches() if any(p is not None for p in places) else iter(cells)


def _conf(t: Any, options: "Dict[str, Any]", **more: Any) -> _Build:
    for name in options:
        if name not in _place:
            raise ArgumentTypeError(f"unknown keyword {name!r}: one of {', '.join(_place)}")
    return _Build(t.path, **options, **more)


def _push(base: _Base, t: Any, batches: "Iterator[Any]", files: "List[Optional[str]]",
          repeat: bool, missing: str, options: "Dict[str, Any]") -> "Tuple[Any, _Batches]":
    source = _Batches(batches, is_skipping(missing))
    first = source.next()
    if first is None:
        check_left(0, source.skipped, source.first)
        raise ArgumentError("there is no batch to append")
    order = _build._order_of(first[0])
    if order != base.order:
        raise ArgumentError(f"{t.path}: has {base.order} modes, and what is appended {order}")
    b = _conf(t, options, label_files=files, weights=first[2] is not None)
    b.conf.repeat = bool(repeat)
    if base.option("weights") not in (None, "none") and first[2] is None:
        raise ArgumentError(f"{t.path}: its cells have weights, but the appended cells come without weights")
    err = ts_error()
    builder = check(lib.ts_builder_append(c.byref(b.conf), c.byref(err)), err)
    return _build.push_all(b, builder, source, [first]), source


def _append_files(base: _Base, t: Any, paths: "Sequence[Any]", repeat: bool, missing: str,
                  given: "Dict[str, Any]", options: "Dict[str, Any]") -> Any:
    """Files of text and binary ones, which the library reads."""
    b = _conf(t, options, skip_missing=is_skipping(missing), modes=given["modes"])
    b.conf.repeat = bool(repeat)
    said = {name: x for name, x in given.items() if name != "modes" and x not in (None, ())}
    is_table = base.source == "table" or base.column("column") is not None
    table = None
    if said or not is_table and _files.bare(paths[0]).endswith(_files.TEXT_TABLES):
        table = _build._table(paths[0], None, given["value"], given["weights"], given["text"],
                              given["bin"], given["time_unit"], None, None, False)
        if is_table:
            table.separator = None
    result = ts_build_result()
    b.run(lib.ts_append_files, c.byref(b.conf), None if table is None else c.byref(table),
          len(paths), strings(paths), c.byref(result))
    if result.missing > 0:
        warn(f"{result.missing} line{'s' if result.missing > 1 else ''} left out, where something "
             "is missing")
    return result


def append(t: Any, data: Any, values: Any, *, modes: Any, value: Any, weights: Any, text: Any,
           bin: Any, time_unit: Any, missing: str, repeat: bool, variable: Optional[str],
           **options: Any) -> None:
    """What :meth:`Tensor.append` does to the directory."""
    names_of_columns(value=value, text=text)
    skip = is_skipping(missing)
    result: Any = None
    skipped, first = 0, ""
    with contextlib.closing(_Base(t.path)) as base, tempfile.TemporaryDirectory() as folder:
        files: "List[Optional[str]]" = []
        given: "Dict[str, Any]" = dict(modes=modes, value=value, weights=weights, text=text,
                                       bin=bin, time_unit=time_unit)
        source: Any = None
        if values is not None:
            source = _inputs.Batches([(data, values) if weights is None else
                                      (data, values, weights)])
        else:
            paths = list(data) if isinstance(data, (list, tuple)) else [data]
            wanted = None
            if paths and all(isinstance(x, (str, bytes, os.PathLike)) for x in paths):
                kinds = {_files.kind_of(x) for x in paths}
                if len(kinds) > 1:
                    raise ArgumentError("the files are of several kinds, and those of an append "
                                        "are of one")
                kind = kinds.pop()
                if kind is None:
                    result = _append_files(base, t, paths, repeat, missing, given, options)
                else:
                    source = _files.read_files(paths, kind, wanted, variable)
            else:
                several = isinstance(data, (list, tuple)) and data and _inputs.table_kind(data[0])
                source = _inputs.Rows(data, False) if several else _inputs.read(data, wanted)
        if isinstance(source, _inputs.Rows):
            reader, batches = _of_tables(base, source, folder, files,
                                         dict(given, missing=missing))
            result, _ = _push(base, t, batches, files, repeat, "error", options)
            skipped, first = reader.skipped, reader.first
        elif source is not None:
            if values is None and any(x is not None for x in (modes, value, weights, bin,
                                                              time_unit)):
                raise ArgumentError("modes, value, weights, bin and time_unit are for tables")
            batches = _of_cells(base, source, base.option("zeros") == "keep", folder, files)
            result, pushed = _push(base, t, batches, files, repeat, missing, options)
            skipped, first = pushed.skipped, pushed.first
    t._forget()
    t.merged, t.skipped = result.duplicates, result.missing
    if skip:
        count_skipped(t, skipped, first)


def undo(t: Any) -> None:
    err = ts_error()
    check(lib.ts_undo(encoded(t.path), None, c.byref(err)), err)
    t._forget()


def compact(t: Any, **options: Any) -> None:
    b = _conf(t, options)
    b.run(lib.ts_compact, c.byref(b.conf), c.byref(ts_build_result()))
    t._forget()
