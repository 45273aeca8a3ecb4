# SPDX-License-Identifier: BSD-3-Clause
"""Cells of a model that a user names by indices or by labels, and tables by its names of modes."""

import contextlib
import datetime
import os
import re
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np

from . import _column, _files, _inputs
from ._build import of_source
from ._checks import names_of_columns, shown
from ._errors import ArgumentError, ArgumentTypeError, FormatError
from ._frame import _column_names, _field, _Mode, of_rows
from ._lib import Array, lib, unmasked
from ._tensor import Tensor, as_tensor

if TYPE_CHECKING:
    from ._model import Model

_CHUNK = 1 << 16
_Say = Callable[[int], str]  # how a sentence names a row
_LABELS = (str, bytes, datetime.date, np.datetime64)  # types of a field that may be a label
_TIME = re.compile(r"\d{4}-\d\d")  # how a label of a time begins
_SEVERAL = -2  # in place of the index of a label that several rows have


def _called(model: "Model", mode: int) -> str:
    name = model.names[mode]
    return f"mode {mode}" if name is None else f"mode {name!r}"


def is_labelled(model: "Model", mode: int) -> bool:
    """Whether rows of a mode have labels."""
    if lib.ts_cpd_labelled(model._handle, mode):
        return True
    index, rows = model.rows(mode)
    some = np.arange(min(len(rows), _CHUNK), dtype=np.uint64) if index is None else index[:_CHUNK]
    return any(x is not None for x in model.labels(mode, some))


def _rows_called(model: "Model", mode: int, names: "List[str]") -> Array:
    """The row of each name, -1 for a name without a row."""
    place = dict.fromkeys(names, -1)
    index, rows = model.rows(mode)
    for at in range(0, len(rows), _CHUNK):
        end = min(at + _CHUNK, len(rows))
        some = np.arange(at, end, dtype=np.uint64) if index is None else index[at:end]
        for i, label in zip(some.tolist(), model.labels(mode, some)):
            if label in place:
                place[label] = i if place[label] == -1 else _SEVERAL
    return np.array([place[name] for name in names], dtype=np.int64)


def _is_odd(field: Any) -> bool:
    """Whether a field is neither a text, nor a number or a time."""
    return not isinstance(field, (str, bytes)) and " at 0x" in repr(field)


def _of_bins(model: "Model", mode: int, name: str) -> str:
    """What a sentence adds if a time is none of a mode's times, as those of bins are."""
    index, rows = model.rows(mode)
    label = model.labels(mode, [0 if index is None else int(index[0])])[0] if len(rows) else None
    if label is None or not _TIME.match(label) or not _TIME.match(name):
        return ""
    return (f", only such as {label!r}: if these are bins, from_frame(..., bin=...) makes a tensor "
            "of a table, for fit, evaluate and fold_in")


def _by_label(model: "Model", mode: int, column: _column.Column, say: "_Say") -> Array:
    column = _column.coded(column)
    odd = next((x for x in column.fields if _is_odd(x)), None)
    if odd is not None:
        raise ArgumentError(f"{say(0)}: {shown(odd)} is no label: a text, number or time is wanted")
    names = [_column.name_of(x) for x in column.fields]
    place = _rows_called(model, mode, names)
    wrong = np.flatnonzero((np.bincount(column.codes, minlength=len(names)) > 0) & (place < 0))
    if wrong.size:
        row = int(np.isin(column.codes, wrong).argmax())
        code = int(column.codes[row])
        raise ArgumentError(f"{say(row)}: several rows of the model are called {names[code]!r}"
                            if place[code] == _SEVERAL else
                            f"{say(row)}: the model has no row called {names[code]!r}"
                            + _of_bins(model, mode, names[code]))
    found: Array = place[column.codes]
    return found


def _by_index(model: "Model", mode: int, column: _column.Column, say: "_Say") -> Array:
    n = model.shape[mode]
    column = _column.coded(column)
    number = [_column.index_of(x) for x in column.fields]
    index = np.array([n if i is None else i for i in number], dtype=np.int64)[column.codes]
    if (index >= n).any():
        row = int((index >= n).argmax())
        field = column.fields[column.codes[row]]
        text = shown(field) if _is_odd(field) else repr(_column.name_of(field))
        raise ArgumentError(f"{say(row)}: {text} is no index of the model, from 0 to {n - 1}")
    return index


def _places(model: "Model", mode: int, given: Any, table: bool) -> Array:
    """Indices of a column. Its fields are labels if the mode has labels and they are in a table or
    are texts or times."""
    try:
        column = _column.join(_column.read(given))
    except ArgumentError as e:
        raise ArgumentError(f"{_called(model, mode)}: {e}") from None
    if column.missing is not None:
        row = int(column.missing.argmax())
        raise ArgumentError(f"{_called(model, mode)}, row {row}: there is no value")
    if column.n == 0:
        return np.empty(0, dtype=np.int64)
    numbers = column.plain is not None and column.plain.dtype.kind not in "mM" or \
        column.plain is None and not any(map(_column.is_text, column.fields))

    def say(row: int) -> str:
        return f"{_called(model, mode)}, row {row}"
    by_label = not (numbers and not table) and is_labelled(model, mode)
    return (_by_label if by_label else _by_index)(model, mode, column, say)


def _columns_of(model: "Model", table: Any) -> "Tuple[List[Any], bool]":
    """A column for each mode: by its name, or in order where no column is called like a mode."""
    names = _column_names(table)
    levels = [x for x in getattr(getattr(table, "index", None), "names", ()) if x is not None]
    found = [name for name in model.names if name in names or name in levels]
    if not found and len(names) == model.order:
        return [table[name] for name in names], False
    return [_field(table, name, model.names) for name in _all_named(model)], True


def _all_named(model: "Model") -> "List[str]":
    """The names of the modes, by which columns are found."""
    names = [name for name in model.names if name is not None]
    if len(set(names)) < len(names):
        raise ArgumentError(f"several modes of the model are called the same ({', '.join(names)}), so "
                            "columns of a table cannot be found by their names")
    if len(names) < model.order:
        raise ArgumentError("modes of the model have no names, by which columns of a table would "
                            "be found: open(table, modes=[...]) makes a tensor of it")
    return names


def _listed(coords: Any, order: int) -> Any:
    """Columns of a list of rows, or of an array, in which some fields are texts or times."""
    if isinstance(coords, np.ndarray):
        return tuple(coords.T) if coords.ndim == 2 and coords.dtype.kind in "OUSTM" else coords
    if not isinstance(coords, list) or not coords or not isinstance(coords[0], (list, tuple)) or \
            not any(isinstance(x, _LABELS) for x in coords[0]):
        return coords
    if any(not isinstance(row, (list, tuple)) or len(row) != order for row in coords):
        raise ArgumentError(f"rows of {order} fields are wanted, one for each mode")
    return tuple(list(x) for x in zip(*coords))


def indices(model: "Model", coords: Any) -> Array:
    """The cells of :meth:`Model.predict` as indices, uint64 of shape (n, order)."""
    by_name = False
    if _inputs.table_kind(coords):
        source = _inputs.read(coords, None)
        if not isinstance(source, _inputs.Rows) or not source.whole:
            raise ArgumentTypeError(f"{_inputs.described(coords)} is read in pieces: a whole "
                                    "table is wanted")
        columns, by_name = _columns_of(model, source.table)
        given: Any = tuple(columns)
    else:
        given = _listed(coords, model.order)
    if isinstance(given, tuple) and len(given) == model.order and \
            (by_name or any(map(_named, given))):
        found = [_places(model, m, x, by_name) for m, x in enumerate(given)]
        if len({len(x) for x in found}) > 1:
            raise ArgumentError(f"columns of {', '.join(str(len(x)) for x in found)} rows: as "
                                "many in each mode are wanted")
        return np.stack(found, axis=1).astype(np.uint64)
    if isinstance(given, tuple):
        arrays = [unmasked("coordinates", x) for x in given]
        if any(x.ndim != 1 or len(x) != len(arrays[0]) for x in arrays):
            raise ArgumentError("coordinates: a tuple has a column for each mode, all of one length")
        given = np.stack(arrays, axis=1)
    cells = unmasked("coordinates", given)
    if cells.ndim != 2 or cells.shape[1] != model.order:
        raise ArgumentError(f"coordinates of shape {cells.shape}: (n, {model.order}) is wanted")
    if len(cells) and cells.dtype.kind not in "iu":
        raise ArgumentTypeError(f"coordinates are {cells.dtype}: whole numbers are wanted, or "
                                "labels of the model")
    for m, n in enumerate(model.shape):
        if len(cells) and not (0 <= cells[:, m].min() and cells[:, m].max() < n):
            raise ArgumentError(f"mode {m}: indices from 0 to {n - 1} are wanted")
    return np.ascontiguousarray(cells, dtype=np.uint64)


def _named(column: Any) -> bool:
    """Whether fields of a column may be labels."""
    if isinstance(column, np.ndarray):
        return column.dtype.kind in "OUSTM"
    if isinstance(column, (list, tuple)):
        return any(isinstance(x, _LABELS) for x in column)
    return type(column).__module__.split(".")[0] in ("pandas", "polars", "pyarrow")


# ---- tables ----


class _Known(_Mode):
    """A column whose fields are rows of a model."""

    def __init__(self, model: "Model", mode: int, name: str) -> None:
        self.labelled = is_labelled(model, mode)
        super().__init__(name, self.labelled)
        self._model, self._mode = model, mode
        self.text = self.labelled
        self.last = model.shape[mode] - 1

    def take(self, column: _column.Column, rows: Any) -> Array:
        if column.n == 0:
            return np.empty(0, dtype=np.int64)

        def say(row: int) -> str:
            return str(rows.say(self.name, row))
        return (_by_label if self.labelled else _by_index)(self._model, self._mode, column, say)

    def labels(self) -> "Optional[List[str]]":
        found = self._model.labels(self._mode) if self.labelled else [None]
        return None if None in found else found  # type: ignore[return-value]

    def sort(self, indices: Array) -> Array:
        return indices

    def tell(self) -> None:
        pass


class _New(_Mode):
    """A column whose fields are new rows."""

    def tell(self) -> None:
        pass  # the keyword that says what is meant is one of builds


@contextlib.contextmanager
def _own_words() -> "Iterator[None]":
    """Sentences of builds name keywords that methods of models lack."""
    try:
        yield
    except (ArgumentError, FormatError) as e:
        words = str(e)
        for theirs, ours in ((r"[:;] missing='skip' leaves out such rows$", "; leave out such rows"),
                             (r" \(missing='skip' leaves such lines out\)$", "; leave such lines out"),
                             (r"; text=\[.*\] takes the fields of this column as names$",
                              "; make texts of this column")):
            words = re.sub(theirs, ours, words)
        e.args = (words, *e.args[1:])
        raise


def _source_of(x: Any, columns: "List[Any]") -> "Optional[_inputs.Source]":
    """A table, tables in turn, or what an iterator gives; None for anything else."""
    if isinstance(x, (str, bytes, os.PathLike)):
        kind = _files.kind_of(x)
        source: Any = None if kind not in ("parquet", "arrow") else _files.read_files(
            [x], kind, columns, None)
    elif isinstance(x, (list, tuple)) and any(map(_inputs.table_kind, x)):
        source = _inputs.Rows(iter(x), False)
    else:
        is_read = _inputs.table_kind(x) or isinstance(x, Iterator)
        source = _inputs.read(x, columns) if is_read else None
    found: "Optional[_inputs.Source]" = source
    return found


def _value_of(model: "Model", source: "_inputs.Rows", names: "List[str]", value: Any) -> Any:
    """The column of the values; None: each row counts as 1."""
    if value is not None:
        return None if isinstance(value, str) and value == "none" else value
    own = model._value_name()
    others: "List[Any]" = [own]
    if source.whole:
        others = [x for x in _column_names(source.table) if x not in names]
        if not others:
            return None
        if source.value in others:
            return source.value
    if own is not None and own in others:
        return own
    shown = f" (the table also has {', '.join(map(repr, others[:20]))})" if source.whole else ""
    raise ArgumentError("value= names the column of the values, and value='none' counts each row "
                        f"as 1{shown}")


def tensor_of(model: "Model", x: Any, value: Any = None, free: Optional[int] = None) -> Tensor:
    """What :meth:`Model.fit` and others take as a tensor. Columns of a table are found by the names
    of the modes, and rows by the labels of the model, except in the mode `free`."""
    names_of_columns(value=value)
    is_named = all(name is not None for name in model.names)
    columns = [*model.names, *([value] if isinstance(value, str) and value != "none" else [])]
    source = _source_of(x, columns) if is_named and not isinstance(x, Tensor) else None
    if not isinstance(source, _inputs.Rows):
        if value is not None:
            raise ArgumentError("value= is for tables, whose columns are called like the modes of "
                                "the model")
        with _own_words():
            return as_tensor(x) if source is None else of_source(source, None)
    names = _all_named(model)
    known = {name: _Known(model, m, name) if m != free else _New(name, is_labelled(model, m))
             for m, name in enumerate(names)}
    shape: "Dict[str, Any]" = {} if free is not None else {"shape": model.shape}
    with _own_words():
        return of_rows(source, names, _value_of(model, source, names, value), None, known=known,
                       **shape)
