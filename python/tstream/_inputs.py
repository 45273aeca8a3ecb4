# SPDX-License-Identifier: BSD-3-Clause
"""What stands for a tensor: one table of kinds of objects, and how each is read.

A kind is recognised by the module and the name of a type, so that no package is imported here. An
object is read as one of three: :class:`Dense` (an array), :class:`Cells` (batches of indices and
values) or :class:`Rows` (a table).
"""

import importlib
import os
import sys
import warnings
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np

from . import _column, _spool
from ._lib import ArgumentError, Array

STEP = 1 << 20  # cells of a batch
Names = Optional[Sequence[Optional[str]]]
Labels = Optional[Sequence[Optional[Sequence[str]]]]


class InputTypeError(ArgumentError, TypeError):
    """An object of a type that is no tensor."""


class Dense(NamedTuple):
    """An array with a value in each cell, NaN where it is unknown."""
    cells: Array
    modes: Names = None
    labels: Labels = None


class Cells(NamedTuple):
    """Batches of (coords, values), as :func:`from_batches` takes them."""
    batches: "Iterable[Any]"
    shape: "tuple[int, ...]"
    values: "Optional[Array]" = None  # of all cells, where they are at hand
    modes: Names = None
    labels: Labels = None


class Rows(NamedTuple):
    """A whole table, or tables that come one after another."""
    table: Any
    whole: bool
    modes: "Optional[Sequence[Any]]" = None  # columns, where the object tells
    value: Any = None
    ahead: bool = False  # tables may be read in another thread


class Batches(NamedTuple):
    """An iterator of batches of the user's."""
    batches: "Iterable[Any]"


Source = Union[Dense, Cells, Rows, Batches]
Columns = Optional[Sequence[Any]]  # of a table, those that are read; None: it is not known


def renamed(old: str, given: Any, new: str, value: Any) -> Any:
    """The value of a keyword that has another name now; the old name warns."""
    if given is None:
        return value
    if value is not None:
        raise ArgumentError(f"{new}= and {old}=: these are two names for one keyword")
    warn_renamed(f"{old}= is called {new}=, and will be an error in the release after the next")
    return given


def warn_renamed(text: str) -> None:
    """A FutureWarning at the line that called the package."""
    here = os.path.dirname(os.path.abspath(__file__))
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and os.path.dirname(os.path.abspath(
            frame.f_code.co_filename)) == here:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, FutureWarning, stacklevel=level)


def described(x: Any) -> str:
    """The type of an object, as a sentence names it."""
    kind = type(x)
    home = kind.__module__.split(".")[0]
    return kind.__qualname__ if home in ("builtins", "__main__") else f"{home}.{kind.__qualname__}"


def refuse(x: Any, way: str) -> InputTypeError:
    return InputTypeError(f"{described(x)} is no tensor: {way}")


# ---- dense ----


def masked(array: Any) -> Array:
    """An array of NumPy with NaN where it is masked."""
    if not np.ma.isMaskedArray(array):
        return np.asanyarray(array)
    if not np.ma.is_masked(array):
        return np.ma.getdata(array)
    kept = array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)
    filled: Array = np.ma.filled(array.astype(kept), np.nan)
    return filled


def _array(x: Any, columns: Columns) -> Source:
    if x.dtype.names is not None:
        return Rows(x, True)
    return Dense(masked(x))


def _protocol(x: Any, columns: Columns) -> Source:
    """Of torch, JAX, dask and others that NumPy reads."""
    for name in ("detach", "cpu"):  # of torch
        x = getattr(x, name)() if callable(getattr(x, name, None)) else x
    return Dense(np.asarray(x))


def _list(x: Any, columns: Columns) -> Source:
    """Nested lists of numbers, or tables in turn."""
    if any(table_kind(each) for each in x):
        return Rows(iter(x), False)
    try:
        array = np.asarray(x)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "biuf" or array.ndim < 2:
        raise refuse(
            x,
            "a list is nested lists of numbers, as many in each, or tables in turn; "
            "from_coo(coords, values) takes indices and values")
    return Dense(array)


def _h5py(x: Any, columns: Columns) -> Source:
    """A dataset of HDF5: mapped where its cells lie in the file one after another, else read
    piece by piece."""
    if not x:
        raise ArgumentError("the file of the h5py.Dataset is closed")
    if x.shape is None or x.ndim == 0 or x.dtype.kind not in "biuf":
        raise ArgumentError(
            f"dataset {x.name!r} is of {x.dtype} and shape {x.shape}: an array of real numbers is "
            "wanted")
    file = x.file
    whole = x.chunks is None and x.external is None and not x.is_virtual and x.size > 0
    offset = x.id.get_offset() if whole and x.dtype.kind in "iuf" else None
    if offset is not None and file.driver == "sec2" and file.mode == "r":
        return Dense(
            np.memmap(file.filename, mode="r", dtype=x.dtype, shape=x.shape, offset=offset))
    return Dense(_spool.of_dataset(x))


def _xarray(x: Any, columns: Columns) -> Source:
    """Dimensions are modes, coordinates along a dimension are labels."""
    labels = [
        names_of(x.coords[d].values) if d in x.coords and x.coords[d].ndim == 1 else None
        for d in x.dims
    ]
    modes = [str(d) for d in x.dims]
    data = x.data if kind_of(x.data) is not None else x.values
    source = read(data, None)
    assert isinstance(source, (Dense, Cells))
    return source._replace(modes=modes, labels=labels)


def names_of(values: Any) -> "Optional[list[str]]":
    """What the entries of a coordinate are called; None for 0, 1, 2..., which need no names."""
    column = _column.coded(_column.join(_column.read(values)))
    if column.missing is not None:
        raise ArgumentError(
            "a coordinate has an entry that is missing, and labels are of all indices")
    if values.dtype.kind in "iu" and (values == np.arange(len(values))).all():
        return None
    names = [_column.name_of(x) for x in column.fields]
    return [names[code] for code in column.codes]


# ---- cells ----


def cut(coords: "Sequence[Array]", *columns: Array) -> "Iterator[Any]":
    """Batches of columns of indices, values and, where there are any, weights."""
    for at in range(0, max(len(columns[0]), 1), STEP):
        yield (tuple(x[at:at + STEP] for x in coords), *(x[at:at + STEP] for x in columns))


def cells(coords: "Sequence[Any]", values: Any, shape: Any) -> Cells:
    """Cells by a column of indices for each mode."""
    columns, values = [np.asarray(x) for x in coords], np.asarray(values)
    return Cells(cut(columns, values), tuple(int(n) for n in shape), values)


def compressed(first: Any, index: Any, values: Any, shape: Any, rows: bool) -> Cells:
    """Cells of a matrix by compressed rows, or else columns: where each begins, and the index of
    the other mode of each cell."""
    begin = np.asarray(first).astype(np.int64)

    def batches() -> "Iterator[Any]":
        for at in range(0, max(len(values), 1), STEP):
            end = min(at + STEP, len(values))
            major = np.searchsorted(begin, np.arange(at, end), side="right") - 1
            minor = np.asarray(index[at:end])
            yield (major, minor) if rows else (minor, major), np.asarray(values[at:end])

    return Cells(batches(), tuple(int(n) for n in shape), values)


def _scipy(x: Any, columns: Columns) -> Source:
    x = x.tocoo()
    return cells(x.coords if hasattr(x, "coords") else (x.row, x.col), x.data, x.shape)


def _sparse(x: Any, columns: Columns) -> Source:
    if x.fill_value != 0:
        raise ArgumentError(
            f"{described(x)} has the fill value {x.fill_value}: cells that are not "
            "listed are 0 in a sparse tensor; "
            "x.todense() makes an array, and x - x.fill_value cells that differ from it")
    x = x.to_coo() if hasattr(x, "to_coo") else x.tocoo() if hasattr(x, "tocoo") else x
    return cells(x.coords, x.data, x.shape)


def _sptensor(x: Any, columns: Columns) -> Source:
    subs = np.asarray(x.subs).reshape(-1, len(x.shape))
    return cells(tuple(subs.T), np.asarray(x.vals).reshape(-1), x.shape)


# ---- tables ----


def known_columns(names: "Sequence[Any]", columns: Columns) -> None:
    """Refuses columns that a table does not have."""
    for name in columns or ():
        if name not in names:
            raise ArgumentError(f"there is no column {name!r}; the table has "
                                f"{', '.join(map(repr, names)) or 'none'}")


def _frame(x: Any, columns: Columns) -> Source:
    return Rows(x, True)


def _series(x: Any, columns: Columns) -> Source:
    """A series of pandas with several levels of its index, as groupby makes it: they are modes."""
    if x.index.nlevels < 2:
        raise refuse(x, "its index has one level, and each level is a mode; a table has a column "
                     "for each mode")
    names = [f"level {m}" if name is None else name for m, name in enumerate(x.index.names)]
    value = "value" if x.name is None or x.name in names else x.name
    table = {name: x.index.get_level_values(m) for m, name in enumerate(names)}
    return Rows({**table, value: x}, True, names, value)


def _dict(x: Any, columns: Columns) -> Source:
    if not all(hasattr(c, "__len__") and not isinstance(c, (str, bytes)) for c in x.values()):
        raise refuse(x, "a table maps names to arrays, a column each")
    return Rows(x, True)


def _batch_reader(x: Any, columns: Columns) -> Source:
    return Rows(iter(x), False)


def _dataset(x: Any, columns: Columns) -> Source:
    """A dataset of pyarrow, or a scanner of one."""
    if hasattr(x, "scanner"):
        known_columns(x.schema.names, columns)
        x = x.scanner(columns=None if columns is None else list(columns), batch_size=STEP // 4)
    return Rows(iter(x.to_reader()), False)


def _lazy(x: Any, columns: Columns) -> Source:
    """A lazy frame of polars: read in pieces, where polars gives them."""
    if columns is not None:
        known_columns(x.collect_schema().names(), columns)
        x = x.select(list(columns))
    if hasattr(x, "collect_batches"):
        return Rows(x.collect_batches(chunk_size=STEP // 4, maintain_order=True), False)
    return Rows(x.collect(), True)


def _stream(x: Any, columns: Columns) -> Source:
    """A table of another package, through the stream interface of arrow."""
    try:
        pyarrow = importlib.import_module("pyarrow")
    except ImportError:
        raise refuse(x, "pyarrow, which is not installed, reads it") from None
    return Rows(iter(pyarrow.RecordBatchReader.from_stream(x)), False)


# ---- the table of kinds ----

_Read = Callable[[Any, Columns], Source]
_tables: "dict[tuple[str, str], _Read]" = {
    ("pandas", "DataFrame"): _frame,
    ("pandas", "Series"): _series,
    ("polars", "DataFrame"): _frame,
    ("polars", "LazyFrame"): _lazy,
    ("pyarrow", "Table"): _frame,
    ("pyarrow", "RecordBatch"): _frame,
    ("pyarrow", "RecordBatchReader"): _batch_reader,
    ("pyarrow", "Dataset"): _dataset,
    ("pyarrow", "Scanner"): _dataset,
    ("builtins", "dict"): _dict,
}
_kinds: "dict[tuple[str, str], _Read]" = {
    ("numpy", "ndarray"): _array,
    ("scipy", "spmatrix"): _scipy,
    ("scipy", "sparray"): _scipy,
    ("sparse", "SparseArray"): _sparse,
    ("pyttb", "sptensor"): _sptensor,
    ("pyttb", "tensor"): lambda x, columns: Dense(np.asarray(x.data)),
    ("xarray", "DataArray"): _xarray,
    ("h5py", "Dataset"): _h5py,
    ("builtins", "memoryview"): lambda x, columns: Dense(np.asarray(x)),
    ("builtins", "list"): _list,
    ("builtins", "tuple"): _list,
    **_tables,
}
_refused = {
    ("xarray", "Dataset"):
    "it holds several arrays; name one (dataset['name']) or stack them (dataset.to_array())",
    ("polars", "Series"): "a table has a column for each mode",
    ("pyarrow", "Array"): "a table has a column for each mode",
    ("pyarrow", "ChunkedArray"): "a table has a column for each mode",
    ("h5py", "Group"): "name the dataset that is the tensor: file['name']",
    ("pyttb", "ktensor"):
    "ktensor.full() is one, and Model.from_factors takes its weights and factors",
    ("pyttb", "ttensor"): "ttensor.full() is one",
    ("pyttb", "tenmat"): "tenmat.to_tensor() is one",
    ("pyttb", "sptenmat"): "sptenmat.to_sptensor() is one",
    ("tensorly", "FactorizedTensor"):
    "it is a model: Model.from_factors takes its weights and factors",
    ("tstream", "Model"): "it is a model",
    ("tstream", "Collection"): "it holds models",
    ("builtins", "NoneType"): "a Tensor, a path, an array, a sparse array or a table is wanted",
}


def kind_of(x: Any) -> Optional[_Read]:
    """How an object is read; None where its type is of no kind that is known."""
    keys = [(base.__module__.split(".")[0], base.__name__) for base in type(x).__mro__]
    for key in sorted(keys, key=lambda key: key[0] == "builtins"):  # a dok_array is a dict, too
        if key in _refused:
            raise refuse(x, _refused[key])
        if key in _kinds:
            return _kinds[key]
    if hasattr(x, "__arrow_c_stream__"):
        return _stream
    return _protocol if hasattr(
        x, "__array__") and not isinstance(x, (np.generic, str, bytes)) else None


def table_kind(x: Any) -> bool:
    """Whether an object is a table by its type."""
    return any(
        (base.__module__.split(".")[0], base.__name__) in _tables
        for base in type(x).__mro__) or (isinstance(x, np.ndarray) and x.dtype.names is not None)


def read(x: Any, columns: Columns) -> Source:
    """An object as what it is: an array, cells or a table.

    Parameters
    ----------
    x : object
    columns : sequence, optional
        The columns of a table that are read.

    Returns
    -------
    Dense, Cells, Rows or Batches

    Raises
    ------
    InputTypeError
        The type is of no kind; it names the type and the way.
    """
    kind = kind_of(x)
    if kind is not None:
        return kind(x, columns)
    if isinstance(x, Mapping):
        return _dict(x, columns)
    if isinstance(x, Iterable) and not isinstance(x, (str, bytes, os.PathLike, set, frozenset)):
        return _turns(x, columns)
    raise refuse(x, "a Tensor, a path, an array, a sparse array or a table is wanted")


def _turns(x: "Iterable[Any]", columns: Columns) -> Source:
    """Of an iterator: batches of cells, or tables. Its first one tells."""
    rest = iter(x)
    first = [each for each in (next(rest, None), ) if each is not None]

    def again() -> "Iterator[Any]":
        while first:
            yield first.pop()  # which nothing else holds
        yield from rest

    if first and table_kind(first[0]):
        return Rows(again(), False)
    return Batches(again())
