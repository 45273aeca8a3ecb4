# SPDX-License-Identifier: BSD-3-Clause
"""Building tensors: from files, arrays, frames, batches."""

import contextlib
import ctypes as c
import logging
import os
import shutil
import tempfile
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence, Union

import numpy as np

from . import _column, _files, _inputs
from ._checks import integer, is_several, names_of_columns
from ._inputs import InputTypeError, renamed
from ._lib import (ArgumentError, ArgumentTypeError, Array, Call, FormatError, Mode, Path, Size,
                   encoded, lib, progress_fn, reals, size, strings, ts_build_conf, ts_build_result, ts_error,
                   ts_select_conf, ts_table_conf, warn, whole)
from ._tensor import Tensor

Progress = Optional[Callable[["dict[str, Any]"], object]]
_duplicates = {"sum": 0, "keep": 1, "error": 2}
_zeros = ("drop", "keep")
_transforms = {"log1p": 1, "binary": 2}
_SCALE = 3
_packed = ("", *_files.PACKED)
_ends = (".tns", ".txt", ".coo", ".csv", ".tsv", ".tab", ".mtx", ".bin", ".sptn", *_files.ENDS)
_OF_FILES = ("columns, value, weights, text, bin, time_unit, separator, header and sorted_names "
             "are for files")


class _Build(Call):
    """A build that is asked for: its conf, and what must stay while it runs."""

    def __init__(self, out: Path, *, shape: "Optional[Sequence[int]]" = None, order: int = 0,
                 modes: "Optional[Sequence[str]]" = None,
                 label_files: "Optional[Sequence[Any]]" = None, replace: bool = False,
                 memory: Size = None, tmp: Optional[Path] = None, threads: int = 0,
                 shard: Size = None, duplicates: str = "sum", dtype: Any = "float32", base: int = 0,
                 zeros: str = "drop", progress: Progress = None, weights: bool = False,
                 skip_missing: bool = False, space_check: bool = True, expect: int = 0,
                 transform: "Union[None, str, float]" = None, partial_map: bool = False,
                 told: "Sequence[str]" = ()) -> None:
        super().__init__()
        named = isinstance(transform, str)
        if named and transform not in _transforms or isinstance(transform, bool):
            raise ArgumentError(f"transform={transform!r}: 'log1p', 'binary' or a number is wanted")
        if duplicates not in _duplicates:
            raise ArgumentError(f"duplicates={duplicates!r}: one of {', '.join(_duplicates)}")
        if zeros not in _zeros:
            raise ArgumentError(f"zeros={zeros!r}: one of {', '.join(_zeros)}")
        threads = integer("threads", threads)
        if isinstance(progress, bool) and not progress:
            progress = None
        if progress is not None and not callable(progress):
            raise ArgumentTypeError(f"progress={progress!r}: a function is wanted, or None")
        dtype = np.dtype(dtype)
        if dtype not in (np.dtype("f4"), np.dtype("f8")):
            raise ArgumentError(f"dtype={dtype}: values are float32 or float64")
        shape = None if shape is None else [whole(f"shape[{m}]", n) for m, n in enumerate(shape)]
        given = [len(x) for x in (shape, modes) if x is not None] + ([order] if order else [])
        if len(set(given)) > 1:
            raise ArgumentError(f"the numbers of modes differ: {', '.join(map(str, given))}")
        labels = label_files or []
        self.conf = ts_build_conf(
            out=encoded(out), replace=bool(replace), memory=size(memory),
            tmp=None if tmp is None else encoded(tmp), threads=threads, shard_bytes=size(shard),
            duplicates=_duplicates[duplicates], float64=dtype.itemsize == 8, first_index=base,
            dim=None if shape is None else (c.c_uint64 * len(shape))(*shape),
            order=given[0] if given else 0,
            name=None if modes is None else strings([None if x is None else str(x) for x in modes]),
            label=strings(labels) if labels else None, n_labels=len(labels), stop=self.stop,
            note=self.note, keep_zeros=zeros == "keep", weights=weights, skip_missing=skip_missing,
            no_space_check=not space_check, expect=whole("expect", expect),
            partial_map=bool(partial_map), scale=0 if transform is None or named else
            float(transform), transform=0 if transform is None else
            _transforms[str(transform)] if named else _SCALE,
            told=strings([x.encode(errors="surrogateescape") for x in told]) if told else None,
            n_told=len(told))
        if progress is not None:

            def show(ctx: Any, at: Any) -> None:
                p = at.contents
                self.tell(
                    progress,
                    dict(what=p.what.decode(), unit=p.unit.decode(), phase=p.phase,
                         phases=p.n_phases, done=p.done, total=p.total))

            self.conf.progress = progress_fn(show)


    def add(self, builder: Any, coords: "_Coords", values: Array,
            weights: Optional[Array]) -> None:
        """Gives nonzeros to a builder."""
        n, address = len(values), values.ctypes.data
        if isinstance(coords, list):
            columns = (c.c_void_p * len(coords))(*(x.ctypes.data for x in coords))
            self.run(lib.ts_builder_add_columns, builder, n, columns, address,
                     None if weights is None else weights.ctypes.data)
        elif weights is None:
            self.run(lib.ts_builder_add, builder, n, coords.ctypes.data, address)
        else:
            self.run(lib.ts_builder_add_weighted, builder, n, coords.ctypes.data, address,
                     weights.ctypes.data)


def _stem(path: Path, with_folder: bool) -> str:
    name = os.fsdecode(path) if with_folder else os.path.basename(os.fsdecode(path))
    for end in _packed[1:]:
        if name.endswith(end):
            name = name[:-len(end)]
            break
    root, end = os.path.splitext(name)
    return root if end in _ends else name


def build(source: Any, out: Optional[Path] = None, *, shape: "Optional[Sequence[int]]" = None,
          modes: "Optional[Sequence[Any]]" = None, labels: "Optional[Mapping[int, Path]]" = None,
          base: Optional[int] = None, replace: bool = False, memory: Size = None,
          tmp: Optional[Path] = None, threads: int = 0, shard: Size = None, duplicates: str = "sum",
          dtype: Any = "float32", zeros: str = "drop", progress: Progress = None,
          columns: "Optional[Sequence[Mode]]" = None, value: Optional[Mode] = None,
          weights: Optional[Mode] = None, text: "Union[Mode, Sequence[Mode]]" = (),
          bin: "Optional[Mapping[Mode, str]]" = None,
          time_unit: "Union[None, str, Mapping[Mode, str]]" = None, separator: Optional[str] = None,
          header: Optional[bool] = None, sorted_names: bool = False, missing: str = "error",
          space_check: bool = True, variable: Optional[str] = None,
          transform: "Union[None, str, float]" = None, decimal: str = ".", quote: str = "double",
          partial_map: bool = False, names: "Optional[Sequence[str]]" = None) -> Tensor:
    """Builds a tensor from files, as ``tshard build`` does, or from an object that holds one.

    Parameters
    ----------
    source : path, list of them, or object
        Files that are parts of one tensor, compressed or not: lists and tables of text, Parquet,
        Arrow and feather; or one file of MATLAB, HDF5 or ``.npz``. Batches as in
        :func:`from_batches`. Any object that :func:`open` takes; of an array the cells that are not
        0 are listed.
    out : path, optional
        The ``.tsh`` directory to write. By default it has the name of the first file, in the
        current directory, and that of an object is a temporary one, which is removed with the
        tensor.
    shape : sequence of int, optional
        Sizes of the modes; by default the largest indices.
    modes : sequence of str or int, optional
        Names of the modes. In tables they name the columns that are modes; numbers are columns,
        from 0.
    labels : dict of int to path, optional
        Files with a name for each index of a mode (from 0), one a line. Files ``NAME.modeK.map``
        beside the first file are used without this keyword.
    base : {1, 0}, optional
        First index of text, 1 by default. Binary files and batches count from 0. For batches it is
        the first index in output.
    replace : bool
        Replace an existing tensor. Files that tstream did not write are never replaced.
    memory : int or str, optional
        Memory of the build, such as ``"8G"``. By default half of the free memory.
    tmp : path, optional
        Directory for temporary files; by default that of `out`.
    threads : int
        Number of threads; 0 uses all CPUs.
    shard : int or str, optional
        Largest size of a shard, 4M by default.
    duplicates : {'sum', 'keep', 'error'}
        What to do with several nonzeros of one cell. 'sum' adds them up. ``Tensor.merged`` and the
        logger ``tstream``, at the level INFO, give their number.
    dtype : {'float32', 'float64'}
        Type of the values.
    zeros : {'drop', 'keep'}
        What to do with listed cells of value 0. 'keep' makes them cells like any other, for ``cp``
        with ``observed=True``.
    space_check : bool
        Refuse a build that does not fit on the disk or in memory, before reading or as soon as this
        is known. False starts anyway.
    progress : callable, optional
        Called a few times a second with a dict of what, phase, phases, done, total and unit.
    columns, value, weights, text, bin, time_unit, separator, header, sorted_names : optional
        With one of these, or if the name of the first file ends like .csv, .tsv or .tab, the files
        are tables: CSV, TSV, or columns separated by blanks. columns
        are the columns that are modes, by name or number from 0. value and weights are one column
        each; value='none' counts each line as 1. text are modes whose fields are names, even if
        they look like numbers. bin={'week': '7d'} puts times into bins, and time_unit is the unit
        of times (see :func:`from_frame`). separator is one character, by default that of the file's
        name. header says whether the first line names the columns. sorted_names sorts names by
        their bytes; by default they are in the order of first appearance.
    variable : str, optional
        Which array of a file of MATLAB, HDF5 or ``.npz`` is the tensor, if it has several.
    transform : {'log1p', 'binary'} or float, optional
        What becomes of each value, after those of a cell were added up: log(1 + value), 1, or this
        number times the value.
    decimal : {'.', ','}
        The decimal mark of values and weights in tables of text.
    quote : {'double', 'none'}
        How fields of tables of text are quoted. 'none': quotes are characters as any other.
    partial_map : bool
        Files of `labels` may have more or fewer names than the mode has indices.
    names : sequence of str, optional
        The name of `modes` before 0.3. It warns.
    missing : {'error', 'skip'}
        What to do with lines, or rows of batches, with a missing field. 'error': the first one is
        an error. 'skip': all are left out. A warning and ``Tensor.skipped`` give their number.

    Returns
    -------
    Tensor
    """
    modes = renamed("names", names, "modes", modes)
    numbered = modes is not None and any(isinstance(x, (int, np.integer)) for x in modes)
    options: "dict[str, Any]" = dict(shape=shape, modes=modes, replace=replace, memory=memory,
                                     tmp=tmp, threads=threads, shard=shard, duplicates=duplicates,
                                     dtype=dtype, zeros=zeros, progress=progress,
                                     space_check=space_check, transform=transform,
                                     partial_map=partial_map)
    for what, given, of in (("decimal", decimal, (".", ",")), ("quote", quote, ("double", "none"))):
        if given not in of:
            raise ArgumentError(f"{what}={given!r}: one of {', '.join(map(repr, of))}")
    names_of_columns(value=value, weights=weights, text=text)
    of_text = separator is not None or header is not None or bool(sorted_names) or \
        decimal == "," or quote == "none"
    said = of_text or any(x is not None for x in (columns, value, weights, time_unit)) or \
        bool(text) or bool(bin) or text == 0 and not isinstance(text, (list, tuple))
    paths = list(source) if isinstance(source, (list, tuple)) else [source]
    if not paths:
        raise ArgumentError("there is no file to build from")
    are_paths = all(isinstance(x, (str, bytes, os.PathLike)) for x in paths)
    kinds = {_files.kind_of(path) for path in paths} if are_paths else {None}
    if len(kinds) > 1:
        raise ArgumentError("the files are of several kinds, and the parts of a tensor are of one")
    kind = kinds.pop()
    if not are_paths or kind is not None:
        if of_text:
            raise ArgumentError(
                _OF_FILES + "; from_frame takes tables in memory, and their columns" if kind is
                None else "separator, header, sorted_names, decimal and quote are for tables of "
                "text")
        said_of: "dict[str, Any]" = dict(columns=columns, value=value, weights=weights, text=text,
                                         bin=bin, time_unit=time_unit)
        wanted = wanted_columns(modes if columns is None else columns, value, weights)
        if kind is not None:
            found = _files.read_files(paths, kind, wanted, variable)
            out = _stem(paths[0], False) + ".tsh" if out is None else out
        else:
            found = _inputs.read(source, wanted)
        each = [labels.get(m) for m in range(max(labels) + 1)] if labels else None
        return of_source(found, out, labels=each, base=base or 0, missing=missing, **said_of,
                         **options)
    if variable is not None:
        raise ArgumentError("variable= is for files of MATLAB, HDF5 and .npz")
    said = said or _files.bare(paths[0]).endswith(_files.TEXT_TABLES)  # as `tshard build` does
    if numbered:
        if columns is not None:
            raise ArgumentError("modes= are names beside columns=")
        columns, modes, said = modes, None, True
        options["modes"] = None
    out = _stem(paths[0], False) + ".tsh" if out is None else os.fspath(out)
    b = _Build(out, label_files=_label_files(paths[0], labels or {}),
               base=1 if base is None else base, skip_missing=is_skipping(missing), **options)
    table = None
    if said:
        table = _table(paths[0], columns, value, weights, text, bin, time_unit, separator, header,
                       sorted_names)
        table.decimal_comma, table.no_quotes = decimal == ",", quote == "none"
    return _build_texts(b, table, paths, out)


def _label_files(first: Path, labels: "Mapping[int, Path]") -> "list[Optional[Path]]":
    """Files of labels that are named, and those beside the first file."""
    files: "list[Optional[Path]]" = [None] * 16
    for m in range(16):
        for end in _packed:
            beside = f"{_stem(first, True)}.mode{m + 1}.map{end}"
            if files[m] is None and os.path.exists(beside):
                files[m] = beside
    for m, path in labels.items():
        files[m] = os.fspath(path)
    while files and files[-1] is None:
        files.pop()
    return files


def _build_texts(b: _Build, table: Optional[ts_table_conf], paths: "Sequence[Path]",
                 out: Path) -> Tensor:
    """Builds from files of text, or binary ones; `table`: they are tables."""
    result = ts_build_result()
    if table is not None:
        b.run(lib.ts_build_table, c.byref(b.conf), c.byref(table), len(paths), strings(paths),
              c.byref(result))
    else:
        b.run(lib.ts_build_files, c.byref(b.conf), len(paths), strings(paths), c.byref(result))
    t = count_merged(Tensor(out), result, b.conf.duplicates == _duplicates["keep"])
    if table is not None:
        warn_empty(t)
    t.skipped = result.missing
    if t.skipped > 0:
        warn(f"{t.skipped} line{'s' if t.skipped > 1 else ''} left out, where something is missing")
    return t


def build_temporary(source: Any, **options: Any) -> Tensor:
    """What :func:`build` makes of a table of text, in a temporary directory."""
    temporary = tempfile.mkdtemp(suffix=".tstream")
    try:
        out = os.path.join(temporary, "tensor.tsh")
        if all(not options.get(x) for x in ("value", "weights", "text", "bin", "time_unit")):
            options["separator"] = _separator(source)
        built = build(source, out, **options)
        t = Tensor(out, temporary)
        t.skipped, t.merged = built.skipped, built.merged
        return t
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _separator(path: Path) -> str:
    """Of columns, by the end of a file's name."""
    return {
        ".csv": ",",
        ".tsv": "\t",
        ".tab": "\t"
    }.get(os.path.splitext(_files.bare(path))[1], " ")


def _table(path: Path, columns: "Optional[Sequence[Mode]]", value: Optional[Mode],
           weights: Optional[Mode], text: "Union[Mode, Sequence[Mode]]",
           bin: "Optional[Mapping[Mode, str]]", time_unit: "Union[None, str, Mapping[Mode, str]]",
           separator: Optional[str], header: Optional[bool], sorted_names: bool) -> ts_table_conf:
    """What is said of the columns of a table."""

    def name(column: Mode) -> str:  # the library counts columns and modes from 1
        return column if isinstance(column, str) else str(whole("a column", column) + 1)

    def listed(names: "Sequence[str]") -> Any:
        return strings(names) if names else None

    chosen = [name(x) for x in columns or ()]
    texts = [name(x) for x in ([text] if isinstance(text, (str, int)) else text)]
    bins = [f"{name(x)}={width}" for x, width in (bin or {}).items()]
    units = ([f"{name(x)}={unit}" for x, unit in time_unit.items()] if isinstance(
        time_unit, Mapping) else [] if time_unit is None else [time_unit])
    if separator is None:
        separator = _separator(path)
    return ts_table_conf(separator=encoded(separator),
                         header=0 if header is None else 1 if header else 2, column=listed(chosen),
                         n_columns=len(chosen),
                         value=None if value is None else encoded(name(value)),
                         weights=None if weights is None else encoded(name(weights)),
                         text=listed(texts), n_text=len(texts), bin=listed(bins), n_bins=len(bins),
                         time_unit=listed(units), n_units=len(units),
                         sorted_names=bool(sorted_names))


def _select(t: Tensor, out: Path, *, keep: "Mapping[int, Array]", least: "Mapping[int, int]",
            sums: "Sequence[int]", hold_out: float = 0, seed: int = 1, held: bool = False,
            **options: Any) -> Tensor:
    """Builds a tensor of a part of another; modes are numbers."""
    select = ts_select_conf(hold_out=hold_out, seed=seed, held=held,
                            sum_modes=sum(1 << m for m in set(sums)))
    if keep:
        each = [keep.get(m) for m in range(t.order)]
        u64s = c.POINTER(c.c_uint64)
        select.keep = (u64s *
                       t.order)(*[u64s() if i is None else i.ctypes.data_as(u64s) for i in each])
        select.n_keep = (c.c_uint64 * t.order)(*[0 if i is None else i.size for i in each])
    if least:
        select.at_least = (c.c_uint64 *
                           t.order)(*[whole("at_least", least.get(m, 0)) for m in range(t.order)])
    b = _Build(out, **options)
    b.run(lib.ts_build_select, c.byref(b.conf), t._open(), c.byref(select),
          c.byref(ts_build_result()))
    return Tensor(out)


def select_temporary(t: Tensor, **chosen: Any) -> Tensor:
    """What :func:`_select` builds, in a temporary directory."""
    temporary = tempfile.mkdtemp(suffix=".tstream")
    try:
        out = os.path.join(temporary, "tensor.tsh")
        _select(t, out, **chosen).close()
        return Tensor(out, temporary)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def is_skipping(missing: str) -> bool:
    if missing not in ("error", "skip"):
        raise ArgumentError(f"missing={missing!r}: one of error, skip")
    return missing == "skip"


def count_skipped(t: Tensor, n: int, first: str) -> Tensor:
    """The tensor knows of rows that were left out, and the user is told."""
    t.skipped += n
    if n > 0:
        warn(
            f"{n} row{'s' if n > 1 else ''} left out, where something is missing: the first is "
            f"{first}"
        )
    return t


def warn_empty(t: Tensor) -> None:
    """A mode whose indices are numbers such as years has thousands of rows that nothing uses."""
    for m in range(t.order):
        n, used = t.shape[m], t.used[m]
        if n - used < 1000 or 4 * used > n or t.labels(m, t.used_indices(m)[:1]) != [None]:
            continue
        name = m if t.mode_names[m] is None else t.mode_names[m]
        warn(f"mode {name!r}: {n - used} of {n} rows are empty, as its numbers are indices; "
             f"text=[{name!r}] makes a row of each number that occurs, and bin={{{name!r}: '1y'}} "
             "takes years, or other times, with other widths")


def count_merged(t: Tensor, result: ts_build_result, kept: bool) -> Tensor:
    """The tensor knows how many nonzeros were added to another one of the same cell."""
    t.merged = 0 if kept else result.duplicates
    if t.merged > 0:
        logging.getLogger("tstream").info(
            "%s: %d nonzero%s merged into another one of the same cell", t.path, t.merged,
            "s" if t.merged > 1 else "")
    return t


def check_left(n: int, skipped: int, first: str) -> None:
    """Refuses to build of nothing but rows that were left out."""
    if n == 0 and skipped > 0:
        raise ArgumentError(f"each of {skipped} rows has something missing: the first is {first}")


_Coords = Union[Array, "list[Array]"]  # (n, order), or a column for each mode


class _Batches:
    """Batches as the library takes them, without the rows where something is missing."""

    def __init__(self, batches: "Iterable[Any]", skip: bool) -> None:
        self.batches, self.skip = enumerate(batches), skip
        self.skipped = 0
        self.first = ""

    def next(self) -> "Optional[tuple[_Coords, Array, Optional[Array]]]":
        """(n, order) uint64, (n,) float64 and, where there are weights, the same again."""
        number, batch = next(self.batches, (0, None))
        if batch is None:
            return None
        given = list(zip(("values", "weights"), batch[1:3]))
        coords, gone = _indices(batch[0])
        numbers = [_numbers(what, x) for what, x in given]
        values = numbers[0]
        shape = (len(coords[0]), len(coords)) if isinstance(coords, list) else coords.shape
        if len(shape) != 2 or values.ndim != 1 or shape[0] != len(values):
            raise ArgumentError(
                f"coordinates of shape {shape} and values of shape {values.shape}: "
                "(n, order) and (n,) are wanted")
        if len(numbers) > 1 and numbers[1].shape != values.shape:
            raise ArgumentError(
                f"weights of shape {numbers[1].shape}: one for each of {len(values)} values is "
                "wanted"
            )
        absent = [
            *gone,
            *((f"{what} are masked or NaN", np.isnan(x)) for (what, _), x in zip(given, numbers))
        ]
        absent = [(what, m) for what, m in absent if m.any()]
        if absent:
            row, at = min((int(m.argmax()), i) for i, (_, m) in enumerate(absent))
            place = f"{absent[at][0]} in row {row}" + (f" of batch {number}" if number > 0 else "")
            if not self.skip:
                raise ArgumentError(f"{place}: missing='skip' leaves out such rows")
            some = np.logical_or.reduce([m for _, m in absent])
            self.first = self.first or place
            self.skipped += int(some.sum())
            coords = [x[~some] for x in coords] if isinstance(coords, list) else coords[~some]
            numbers = [x[~some] for x in numbers]
        return (_unsigned(coords), np.ascontiguousarray(numbers[0]),
                np.ascontiguousarray(numbers[1]) if len(numbers) > 1 else None)


def _unsigned(coords: _Coords) -> _Coords:
    """Indices as the library takes them. Those of 64 bits are not copied."""
    columns = coords if isinstance(coords, list) else [coords]
    for x in columns:
        if x.dtype.kind not in "iu":
            raise ArgumentError(f"coordinates are {x.dtype}: whole numbers are wanted")
    below = [np.argwhere(x < 0)[0] for x in columns
             if x.dtype.kind == "i" and x.size and x.min() < 0]
    if below:
        row = min(int(at[0]) for at in below)
        index = [x[row] for x in columns] if isinstance(coords, list) else coords[row]
        mode = next(m for m, i in enumerate(index) if i < 0)
        raise ArgumentError(
            f"index {index[mode]} in row {row} of mode {mode}: indices start at 0")
    columns = [
        np.ascontiguousarray(x.view(np.uint64) if x.dtype == np.int64 else x, dtype=np.uint64)
        for x in columns
    ]
    return columns if isinstance(coords, list) else columns[0]


class Ahead:
    """Batches that are made in a thread, each while the one before is taken."""

    def __init__(self, source: _Batches) -> None:
        from concurrent.futures import Future, ThreadPoolExecutor
        self.source = source
        self._pool = ThreadPoolExecutor(1, "tstream reader")
        self._made: "Optional[Future[Any]]" = None

    @property
    def skipped(self) -> int:
        return self.source.skipped

    @property
    def first(self) -> str:
        return self.source.first

    def next(self) -> "Optional[tuple[_Coords, Array, Optional[Array]]]":
        made = self._made or self._pool.submit(self.source.next)
        self._made = None
        batch: "Optional[tuple[_Coords, Array, Optional[Array]]]" = made.result()
        if batch is not None:
            self._made = self._pool.submit(self.source.next)
        return batch

    def close(self) -> None:
        """Waits for the batch that is being made."""
        self._pool.shutdown()


def _indices(coords: Any) -> "tuple[_Coords, list[tuple[str, Array]]]":
    """Coordinates as an array or columns, and the rows of each mode that have none."""
    if _inputs.table_kind(coords):  # NumPy makes floats of columns of uint64 and int64
        names = coords if isinstance(coords, dict) else getattr(coords, "column_names", None)
        coords = tuple(coords[name] for name in (coords.columns if names is None else names))
    if not isinstance(coords, tuple) or not coords or np.ndim(coords[0]) != 1 or np.isscalar(
            coords[0]):
        if not np.ma.is_masked(coords) or np.ndim(coords) != 2:
            array = np.asarray(coords)
            if array.dtype.kind == "O" and array.ndim == 2:  # lists with None
                return _indices(tuple(array.T))
            return array, []
        mask = np.ma.getmaskarray(coords)
        return np.ma.getdata(coords), [(f"coordinates are masked in mode {m},", mask[:, m])
                                       for m in range(mask.shape[-1])]
    columns: "list[Array]" = []
    gone: "list[tuple[str, Array]]" = []
    for m, given in enumerate(coords):
        column = given
        if not isinstance(given, np.ndarray) or np.ma.is_masked(given) or given.dtype.kind == "O":
            read = _column.join(_column.read(given))
            whole = _column.indices_of(read) if read.plain is None else read.plain
            column = np.asarray(given) if whole is None else whole
            if read.missing is not None:
                what = "masked" if np.ma.isMaskedArray(given) else "missing"
                gone.append((f"coordinates are {what} in mode {m},", read.missing))
        columns.append(column)
    if len({len(x) for x in columns}) > 1:
        raise ArgumentError(
            f"coordinates of {', '.join(str(len(x)) for x in columns)} rows: as many in each "
            "mode are wanted"
        )
    for m, x in enumerate(columns):
        if x.ndim != 1:
            raise ArgumentError(f"coordinates of mode {m} have {x.ndim} dimensions: one is wanted")
    if any(x.dtype.kind in "iu" for x in columns):
        columns = [x.view(np.uint8) if x.dtype.kind == "b" else x for x in columns]
    return columns, gone


def _numbers(what: str, given: Any) -> Array:
    """Values or weights as float64, NaN where they are missing."""
    if type(given) is np.ndarray and given.dtype.kind != "O" or np.ndim(given) != 1:
        return reals(what, given)
    try:
        read = _column.join(_column.read(given))
        if read.plain is None and any(isinstance(x, (str, bytes)) for x in read.fields):
            raise ArgumentError("texts: real numbers are wanted")
        return _column.reals_of(read)
    except ArgumentError as e:
        raise ArgumentError(f"{what} are {str(e).replace('it is of ', '')}") from None


def write_labels(path: str, texts: "Iterable[Any]", mode: int) -> None:
    """A file of labels.

    Its byte order mark and carriage returns are those that a reader leaves out, so that labels keep
    theirs.
    """
    with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="\n") as f:
        f.write("\ufeff")
        for text in texts:
            text = str(text)
            if "\n" in text or "\0" in text:
                raise ArgumentError(
                    f"label {text!r} of mode {mode} has a "
                    f"{'line end' if chr(10) in text else 'NUL byte'}"
                )
            try:
                f.write(text + "\r\n")
            except UnicodeEncodeError:
                raise ArgumentError(f"label {text!r} of mode {mode} has half of a pair of "
                                    "surrogates, which is no text") from None


def _write_labels(folder: str, labels: "Sequence[Any]", order: int) -> "list[Any]":
    """Files of label lists; what is None or a path stays."""
    files: "list[Any]" = []
    for m in range(order):
        texts = labels[m] if m < len(labels) else None
        if texts is None or isinstance(texts, (str, os.PathLike)):
            files.append(texts)
            continue
        files.append(os.path.join(folder, f"labels{m}"))
        write_labels(files[-1], texts, m)
    return files


def from_batches(batches: "Iterable[Any]", out: Optional[Path] = None, *,
                 shape: "Optional[Sequence[int]]" = None, modes: "Optional[Sequence[Any]]" = None,
                 labels: "Optional[Sequence[Any]]" = None, missing: str = "error",
                 names: "Optional[Sequence[str]]" = None, **options: Any) -> Tensor:
    """Builds a tensor from arrays, one after another, without holding them in memory.

    Parameters
    ----------
    batches : iterable of (coords, values) or (coords, values, weights)
        coords is an array of whole numbers from 0 with shape (n, order), or a tuple of `order`
        arrays of shape (n,). values and weights have shape (n,). Weights are 0 or more; with
        ``cp(observed=True)`` a weight multiplies the terms of its cell, and a cell of weight 0 does
        not count. Several nonzeros of one cell become their weighted mean. With weights, values are
        float32.
    out : path, optional
        The ``.tsh`` directory to write. By default a temporary one, which is removed with the
        tensor.
    shape, modes, names
        As in :func:`build`.
    labels : sequence, optional
        For each mode a list of strings, a path of a file with one a line, or None.
    missing : {'error', 'skip'}
        What to do with rows with a masked or NaN coordinate, value or weight. 'error': the first
        one is an error. 'skip': all are left out. A warning and ``Tensor.skipped`` give their
        number.
    **options
        memory, tmp, threads, shard, duplicates, dtype, zeros, replace, base, progress, space_check,
        transform, partial_map:
        as in :func:`build`. base (0 by default) is the first index in output. expect is the total
        number of nonzeros without zeros, if it is known: a build that does not fit on the disk is
        then refused before reading.

    Returns
    -------
    Tensor
    """
    modes = renamed("names", names, "modes", modes)
    return add_all(_Batches(batches, is_skipping(missing)), out, shape=shape, modes=modes,
                   labels=labels, **options)


def _order_of(coords: _Coords) -> int:
    return len(coords) if isinstance(coords, list) else int(coords.shape[1])


def read_ahead(batches: "Iterable[Any]", out: Optional[Path], **options: Any) -> Tensor:
    """:func:`from_batches` of an iterator that may be asked from another thread."""
    source = Ahead(_Batches(batches, False))
    try:
        return add_all(source, out, **options)
    finally:
        source.close()


def push_all(b: _Build, builder: Any, source: "Union[_Batches, Ahead]",
             first: "list[Any]") -> ts_build_result:
    """Gives a builder the first batch, which is taken out of the list, and all others; ends and
    frees it."""
    coords, values, weights = first.pop()
    order, weighted, n_rows = _order_of(coords), weights is not None, 0
    try:
        while True:
            if _order_of(coords) != order:
                raise ArgumentError(f"a batch has {_order_of(coords)} modes, earlier batches {order}")
            if (weights is not None) != weighted:
                raise ArgumentError("some batches have weights, others do not")
            b.add(builder, coords, values, weights)
            n_rows += len(values)
            del coords, values, weights  # one at a time
            batch = source.next()
            if batch is None:
                break
            coords, values, weights = batch
            del batch
        check_left(n_rows, source.skipped, source.first)
        result = ts_build_result()
        b.run(lib.ts_builder_finish, builder, c.byref(result))
        return result
    finally:
        lib.ts_builder_free(builder)


def add_all(source: "Union[_Batches, Ahead]", out: Optional[Path], *,
            shape: "Optional[Sequence[int]]" = None, modes: "Optional[Sequence[Any]]" = None,
            labels: "Optional[Sequence[Any]]" = None, **options: Any) -> Tensor:
    """What :func:`from_batches` does, with batches as the library takes them."""
    first = source.next()
    if first is None:
        raise ArgumentError("there is no batch to build from")
    coords, values, weights = first
    order = _order_of(coords)
    weighted = weights is not None
    temporary = None
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as failed:
        if out is None:
            temporary = tempfile.mkdtemp(suffix=".tstream")
            failed.callback(shutil.rmtree, temporary, ignore_errors=True)
            out = os.path.join(temporary, "tensor.tsh")
        files = _write_labels(folder, labels, order) if labels is not None else None
        b = _Build(out, shape=shape, order=order, modes=modes, label_files=files, weights=weighted,
                   **options)
        err = ts_error()
        builder = lib.ts_builder_new(c.byref(b.conf), c.byref(err))
        if builder is None:
            raise err.exception()
        del coords, values, weights
        batches, first = [first], None
        try:
            result = push_all(b, builder, source, batches)
        except FormatError as e:
            if temporary is not None:  # of which the caller knows no name
                e.args = (str(e).replace(f" {os.fsdecode(out)} ", " the tensor "), )
            raise
        failed.pop_all()
    t = count_merged(Tensor(out, temporary), result, b.conf.duplicates == _duplicates["keep"])
    return count_skipped(t, source.skipped, source.first)


def n_nonzeros(values: Array, step: int, options: "Mapping[str, Any]") -> int:
    """How many values are kept: not those that are 0 in the type that they are stored in. 0.

    The build will refuse the type.
    """
    if options.get("zeros") == "keep":
        return len(values)
    dtype = np.dtype(options.get("dtype", "float32"))
    if dtype.kind != "f":
        return 0
    least = np.finfo(dtype).tiny
    return sum(
        int(np.count_nonzero(np.abs(values[i:i + step]) >= least))
        for i in range(0, len(values), step))


def from_coo(coords: Any, values: Any = None, shape: "Optional[Sequence[int]]" = None,
             out: Optional[Path] = None, *, weights: Any = None, missing: str = "error",
             **options: Any) -> Tensor:
    """Builds a tensor from coordinates and values, or from a sparse array.

    Parameters
    ----------
    coords : array_like of int, shape (n, order), or tuple of `order` arrays of shape (n,)
        Indices from 0. Without `values`: a sparse array of scipy.sparse, sparse, or pyttb.
    values : array_like, shape (n,), optional
    shape : sequence of int, optional
        Sizes of the modes; by default the largest indices + 1.
    weights : array_like, shape (n,), optional
        Weights of the cells.
    missing : {'error', 'skip'}
        As in :func:`from_batches`.
    out, **options
        As in :func:`from_batches`, which also explains weights.

    Returns
    -------
    Tensor
    """
    if values is None:
        found = _inputs.read(coords, None)
        if not isinstance(found, _inputs.Cells) or weights is not None:
            raise InputTypeError(
                f"{_inputs.described(coords)} has no values: from_coo(coords, values) takes "
                "them, and a sparse array "
                "alone, without weights")
        return of_source(found, out, shape=shape, missing=missing, **options)
    source = _Batches([(coords, values) if weights is None else (coords, values, weights)],
                      is_skipping(missing))
    index, values, *weighted = source.next() or ([], np.empty(0), None)
    check_left(len(values), source.skipped, source.first)
    step = 1 << 22
    options.setdefault("expect", n_nonzeros(values, step, options))
    columns = [values, *(x for x in weighted if x is not None)]
    pieces = ((tuple(x[i:i + step] for x in index) if isinstance(index, list) else
               index[i:i + step], *(x[i:i + step] for x in columns))
              for i in range(0, max(len(values), 1), step))
    return count_skipped(from_batches(pieces, out, shape=shape, **options), source.skipped,
                         source.first)


def wanted_columns(modes: "Optional[Sequence[Any]]", *others: Any) -> "Optional[list[Any]]":
    """The columns of a table that are read; None where they are not known."""
    if modes is None or isinstance(modes, (str, bytes)):
        return None
    if not is_several(modes):
        raise ArgumentTypeError(f"modes={modes!r}: a list of columns is wanted")
    for name in (*modes, *others):
        if type(name).__hash__ is None:
            raise ArgumentTypeError(f"{name!r} is no name of a column: one is a text or a number")
    return list(dict.fromkeys([*modes, *(x for x in others if x is not None and x != "none")]))


def _listed(array: Array, zeros: str) -> "Iterator[Any]":
    """Batches of the cells of an array, in slabs of its first mode."""
    size = max(_inputs.STEP // max(int(np.prod(array.shape[1:], dtype=np.int64)), 1), 1)
    for at in range(0, array.shape[0], size):
        slab = array[at:at + size]
        where = np.nonzero(np.ones(slab.shape, dtype=bool) if zeros == "keep" else slab)
        yield (where[0] + at, *where[1:]), slab[where]


def of_source(source: "_inputs.Source", out: Optional[Path], *,
              columns: "Optional[Sequence[Any]]" = None, value: Optional[Mode] = None,
              weights: Optional[Mode] = None, text: Any = (), bin: Any = None,
              time_unit: Any = None, **options: Any) -> Tensor:
    """Builds a tensor from what :func:`_inputs.read` found."""
    if isinstance(source, _inputs.Rows):
        from ._frame import of_rows
        if columns is not None:
            if options.get("modes") is not None:
                raise ArgumentError(
                    "columns= and modes=: one of them names the columns that are modes")
            options["modes"] = columns
        value = source.value if value is None else None if value == "none" else value
        options["modes"] = source.modes if options.get("modes") is None else options["modes"]
        options = {
            name: x
            for name, x in options.items() if x is not None or name not in ("labels", "shape")
        }
        return of_rows(source, options.pop("modes"), value, out, weights=weights, text=text,
                       bin=bin, time_unit=time_unit, **options)
    if any(x is not None
           for x in (columns, value, weights, bin, time_unit)) or text not in ((), None):
        if isinstance(source, _inputs.Batches):
            raise ArgumentError(_OF_FILES +
                                "; from_frame takes tables in memory, and their columns")
        raise ArgumentError(
            "columns, value, weights, text, bin and time_unit are for tables, and this is an array")
    if isinstance(source, _inputs.Batches):
        return from_batches(source.batches, out, **options)
    shape = source.cells.shape if isinstance(source, _inputs.Dense) else source.shape
    for name, own in (("modes", source.modes), ("labels", source.labels), ("shape", shape)):
        if options.get(name) is None:
            options[name] = own
    if isinstance(source, _inputs.Dense):
        if source.cells.ndim < 1 or source.cells.dtype.kind not in "biuf":
            raise ArgumentError(
                f"an array of {source.cells.ndim} dimensions of {source.cells.dtype}: real "
                "numbers are wanted"
            )
        return from_batches(_listed(source.cells, options.get("zeros", "drop")), out, **options)
    if source.values is not None and source.values.dtype.kind in "biuf":
        options.setdefault("expect", n_nonzeros(source.values, _inputs.STEP, options))
    return from_batches(source.batches, out, **options)
