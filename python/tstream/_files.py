# SPDX-License-Identifier: BSD-3-Clause
"""Files that other packages read: Parquet, Arrow, MATLAB, HDF5, and ``.npz``.

Tables come in batches of rows.
"""

import contextlib
import importlib
import os
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence

import numpy as np

from . import _spool
from ._inputs import (STEP, Cells, Columns, Dense, InputTypeError, Rows, Source, cells, compressed,
                      read)
from ._lib import ArgumentError, Error, FormatError, Path

_ROWS = STEP // 4  # of a batch


def _package(name: str, path: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as e:
        root = name.split(".")[0]
        raise ArgumentError(
            f"{path}: {root} reads this file, and it is not installed: pip install {root}") from e


@contextlib.contextmanager
def _reading(path: str) -> "Iterator[None]":
    """What packages raise for a damaged file becomes a FormatError; each has its own exceptions."""
    try:
        yield
    except (Error, MemoryError):
        raise
    except Exception as e:
        if isinstance(e, OSError) and e.errno is not None:
            raise
        raise FormatError(f"{path}: cannot be read: {str(e).splitlines()[0] if str(e) else e!r}"
                          ) from e


def _guarded(path: str, batches: "Iterator[Any]") -> "Iterator[Any]":
    with _reading(path):
        yield from batches


def _known(path: str, names: "Sequence[str]", columns: Columns) -> None:
    """Refuses columns that a file does not have."""
    for name in columns or ():
        if name not in names:
            raise ArgumentError(
                f"{path}: there is no column {name!r}; it has {', '.join(map(repr, names))}")


def _texts(schema: Any, columns: Columns) -> "list[str]":
    """Columns of texts, which come as codes then."""
    return [
        f.name for f in schema
        if str(f.type) in ("string", "large_string",
                           "string_view") and (columns is None or f.name in columns)
    ]


def _parquet(paths: "Sequence[str]", columns: Columns) -> "Iterator[Any]":
    parquet = _package("pyarrow.parquet", paths[0])
    dataset = None
    for path in paths:
        if os.path.isdir(path):
            dataset = _package("pyarrow.dataset", path).dataset(path, format="parquet",
                                                                partitioning="hive")
            _known(path, dataset.schema.names, columns)
            yield from dataset.scanner(columns=None if columns is None else list(columns),
                                       batch_size=_ROWS).to_reader()
            continue
        with parquet.ParquetFile(path, memory_map=True, pre_buffer=False) as file:
            _known(path, file.schema_arrow.names, columns)
            texts = _texts(file.schema_arrow, columns)
        with parquet.ParquetFile(path, memory_map=True, pre_buffer=False,
                                 read_dictionary=texts) as file:
            yield from file.iter_batches(batch_size=_ROWS,
                                         columns=None if columns is None else list(columns))


def _arrow(paths: "Sequence[str]", columns: Columns) -> "Iterator[Any]":
    """Files and streams of Arrow's IPC format; feather of version 2 is one of them."""
    pa = _package("pyarrow", paths[0])
    for path in paths:
        with pa.memory_map(path) as source:
            if source.read(6) == b"ARROW1":
                file = pa.ipc.open_file(source)
                schema, batches = file.schema, (file.get_batch(i)
                                                for i in range(file.num_record_batches))
            else:
                source.seek(0)
                stream = pa.ipc.open_stream(source)
                schema, batches = stream.schema, iter(stream)
            _known(path, schema.names, columns)
            for batch in batches:
                batch = batch if columns is None else batch.select(list(columns))
                for at in range(0, batch.num_rows, _ROWS):
                    yield batch.slice(at, _ROWS)


def _chosen(path: str, found: "Mapping[str, Any]", variable: Optional[str]) -> str:
    """The variable of a file that is the tensor."""
    if variable is not None and variable not in found:
        raise ArgumentError(
            f"{path}: there is no variable {variable!r}; it has "
            f"{', '.join(map(repr, found)) or 'none'}"
        )
    if variable is None and len(found) != 1:
        raise ArgumentError(
            f"{path}: has several variables, {', '.join(map(repr, found))}: variable= names one"
            if found else f"{path}: has no array of two or more dimensions")
    return next(iter(found)) if variable is None else variable


def _struct(field: "Callable[[str], Any]") -> Cells:
    """An sptensor of Tensor Toolbox that was saved as a struct: subs, from 1, vals and size."""
    subs = np.asarray(field("subs"))
    shape = np.asarray(field("size")).reshape(-1)
    return cells([subs[:, m].astype(np.int64) - 1 for m in range(subs.shape[1])],
                 np.asarray(field("vals")).reshape(-1), shape)


def _mat(path: str, variable: Optional[str]) -> Source:
    with open(path, "rb") as f:
        head = f.read(520)
    if head[:8] == b"\x89HDF\r\n\x1a\n" or b"\x89HDF\r\n\x1a\n" in head or head.startswith(
            b"MATLAB 7.3"):
        return _hdf5(path, variable)
    io = _package("scipy.io", path)
    try:
        names = [
            name for name, shape, kind in io.whosmat(path)
            if kind not in ("char", "cell", "function", "opaque", "unknown")
            and not np.prod(shape, dtype=float) == 1 or kind in ("struct", "object")
        ]
        name = _chosen(path, dict.fromkeys(names), variable)
        x = io.loadmat(path, variable_names=[name])[name]
    except (NotImplementedError, io.matlab.MatReadError, ValueError, TypeError) as e:
        if isinstance(e, ArgumentError):
            raise
        raise FormatError(f"{path}: scipy does not read it: {e}") from e
    if x.dtype.names is not None and {"subs", "vals", "size"} <= set(x.dtype.names) and x.size == 1:
        return _struct(lambda what: x.reshape(-1)[0][what])
    if x.dtype.names is not None and "data" in x.dtype.names and x.size == 1:
        return Dense(np.asarray(x.reshape(-1)[0]["data"]))
    if x.dtype.kind not in "biuf":
        raise ArgumentError(f"{path}: variable {name!r} is of {x.dtype}: real numbers are wanted")
    return read(x, None)


def _hdf5(path: str, variable: Optional[str]) -> Source:
    """A file of HDF5, as MATLAB 7.3 writes it too: there the first index changes fastest."""
    h5py = _package("h5py", path)
    with h5py.File(path, "r") as file:
        found: "dict[str, Any]" = {}

        def look(name: str, x: Any) -> None:
            if name.startswith("#"):
                return
            sparse = isinstance(x, h5py.Group) and ("MATLAB_sparse" in x.attrs
                                                    or {"subs", "vals", "size"} <= set(x))
            inside = any(name.startswith(group + "/") for group in found)
            if not inside and (sparse or isinstance(x, h5py.Dataset) and x.ndim >= 2
                               and x.dtype.kind in "biuf" and x.size > 1):
                found[name] = x

        file.visititems(look)
        x = found[_chosen(path, found, variable)]
        matlab = "MATLAB_class" in x.attrs
        if isinstance(x, h5py.Group) and "MATLAB_sparse" in x.attrs:
            rows, values = (
                _spool.of_dataset(x[what]) if what in x else np.empty(0, dtype=kind)
                for what, kind in (("ir", np.int64), ("data", np.float64)))
            return compressed(x["jc"][()], rows, values,
                              (int(x.attrs["MATLAB_sparse"]), len(x["jc"]) - 1), False)
        if isinstance(x, h5py.Group):
            return _struct(lambda what: _spool.of_dataset(x[what]).T)
        source = read(x, None)
        return Dense(source.cells.T) if matlab and isinstance(source, Dense) else source


def _npz(path: str, variable: Optional[str]) -> Source:
    """Sparse arrays of scipy.sparse and sparse, or arrays of NumPy."""
    with open(path, "rb") as whole, np.load(whole) as file:  # np.load leaves a damaged one open
        names = set(file.files)
        if {"coords", "data", "shape"} <= names and variable is None:
            if "fill_value" in names and file["fill_value"] != 0:
                raise ArgumentError(
                    f"{path}: has the fill value {file['fill_value']}: cells that are not listed "
                    "are 0 "
                    "in a sparse tensor"
                )
            return cells(tuple(_spool.of_npz(file, "coords")), _spool.of_npz(file, "data"),
                         file["shape"])
        if not {"format", "data", "shape"} <= names or variable is not None:
            found = {name: None for name in file.files}
            return read(_spool.of_npz(file, _chosen(path, found, variable)), None)
        kind = bytes(file["format"].item()) if file["format"].dtype.kind == "S" else b""
        if kind == b"coo" and {"row", "col"} <= names:
            return cells([_spool.of_npz(file, name) for name in ("row", "col")],
                         _spool.of_npz(file, "data"), file["shape"])
        if kind in (b"csr", b"csc") and {"indices", "indptr"} <= names:
            return compressed(file["indptr"], _spool.of_npz(file, "indices"),
                              _spool.of_npz(file, "data"), file["shape"], kind == b"csr")
    return read(_package("scipy.sparse", path).load_npz(path), None)


_tables: "dict[str, Callable[[Sequence[str], Columns], Iterator[Any]]]" = {
    "parquet": _parquet,
    "arrow": _arrow
}
_arrays: "dict[str, Callable[[str, Optional[str]], Source]]" = {
    "mat": _mat,
    "hdf5": _hdf5,
    "npz": _npz
}
_ends = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "arrow",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".mat": "mat",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".npz": "npz"
}
_first = ((b"PAR1", "parquet"), (b"ARROW1", "arrow"), (b"FEA1", "feather 1"), (b"MATLAB ", "mat"),
          (b"\x89HDF\r\n\x1a\n", "hdf5"))
ENDS = tuple(_ends)
PACKED = (".gz", ".zst", ".xz", ".bz2")
TEXT_TABLES = (".csv", ".tsv", ".tab")


def bare(path: Path) -> str:
    """A path without the end of a packer, in small letters."""
    name = os.fsdecode(path).lower()
    return next((name[:-len(end)] for end in PACKED if name.endswith(end)), name)


def kind_of(path: Path) -> Optional[str]:
    """What a file is, by its first bytes and the end of its name.

    None is for those that the library opens, or builds from.
    """
    name = os.fsdecode(path)
    if not os.path.isfile(name):  # of a pipe nothing is read
        return "parquet" if name.rstrip("/").endswith(".parquet") and os.path.isdir(name) else None
    try:
        with open(name, "rb") as f:
            head = f.read(8)
    except OSError:
        return None  # the library says it
    kind = next((kind for mark, kind in _first if head.startswith(mark)), None)
    end = os.path.splitext(name)[1].lower()
    if kind is not None:
        return "mat" if kind == "hdf5" and end == ".mat" else kind
    if _ends.get(end) == "npz" and head.startswith(b"PK"):
        return "npz"
    return "arrow" if _ends.get(end) == "arrow" and head.startswith(b"\xff\xff\xff\xff") else None


def read_files(paths: "Sequence[Path]", kind: str, columns: Columns,
               variable: Optional[str]) -> Source:
    """Files of one kind as what they are.

    Parameters
    ----------
    paths : sequence of path
        Several only of tables, which are parts of one.
    kind : str
        What :func:`kind_of` gives.
    columns : sequence, optional
        The columns of tables that are read.
    variable : str, optional
        Which array of a file is the tensor.
    """
    names = [os.fsdecode(path) for path in paths]
    if kind == "feather 1":
        raise FormatError(
            f"{names[0]}: is feather of version 1; pyarrow.feather.write_feather writes version 2")
    if kind in _tables:
        if variable is not None:
            raise ArgumentError("variable= is for files of arrays")
        return Rows(_guarded(names[0], _tables[kind](names, columns)), False, ahead=True)
    if len(names) > 1:
        raise InputTypeError(
            "several files of arrays are several tensors; numpy.stack joins arrays")
    with _reading(names[0]):
        return _arrays[kind](names[0], variable)
