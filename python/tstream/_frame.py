# SPDX-License-Identifier: BSD-3-Clause
"""Building tensors from tables.

Pandas, pyarrow, polars, mappings of arrays, whole or one after another.
"""

import ctypes as c
import os
import tempfile
import weakref
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence, Union

import numpy as np

from . import _column, _files, _inputs
from ._checks import names_of_columns, shown
from ._build import (check_left, count_skipped, from_batches, is_skipping, n_nonzeros,
                     read_ahead, wanted_columns, warn_empty, write_labels)
from ._column import LARGEST, Column
from ._inputs import InputTypeError, Rows, renamed, warn_renamed
from ._lib import (ArgumentError, ArgumentTypeError, Array, Error, Path, check, lib, ts_error,
                   warn)
from ._tensor import Tensor

_no_index = "is no whole number from 0 to 2^40 - 1"


class _Rows:
    """Which rows of a table stay, and how a sentence names them."""

    def __init__(self, table: Optional[int]) -> None:
        self.table = table
        self.number: Optional[Array] = None  # of each row that stays; None: all do

    def say(self, name: str, row: int) -> str:
        row = int(row if self.number is None else self.number[row])
        return f"column {name!r}, row {row}" + ("" if self.table is None else
                                                f" of table {self.table}")


class _Mode:
    """What the fields of a column are, over all tables.

    Indices themselves, or names that get one each.
    """

    def __init__(self, name: str, text: bool) -> None:
        self.name = name
        self.said = text  # by the user
        self.text = True if text else None  # None: its first fields will tell
        self.index: "dict[str, int]" = {}
        self.ordered = False  # names are categories, in their order
        self.last = -1  # the largest index

    def _decide(self, c: Column) -> bool:
        """Whether the column is text: its type says so, or a field that is no whole number."""
        if c.plain is not None:
            kind = c.plain.dtype.kind
            if kind in "iu":  # identifiers beyond 2^40 are names, as in files
                return bool((c.plain > LARGEST).any()) if c.plain.dtype.itemsize == 8 else False
            return kind in "mM" or kind == "f" and bool(_no_wholes(c.plain).any())
        used = [c.fields[i] for i in np.flatnonzero(np.bincount(c.codes, minlength=len(c.fields)))]
        if any(map(_column.is_text, used)) or any(_column.index_of(x) is None for x in used):
            return True
        indices = [_column.index_of(x) or 0 for x in used]
        return c.ordered and indices != sorted(indices)

    def take(self, column: Column, rows: _Rows) -> Array:
        """The index of each row."""
        if column.n == 0:
            return np.empty(0, dtype=np.int64)
        first = self.text is None or self.last < 0
        if self.text is None:
            self.text = self._decide(column)
        indices = self._names(column, rows, first) if self.text else self._numbers(column, rows)
        self.last = max(self.last, int(indices.max()))
        return indices

    def _refuse(self, rows: _Rows, row: int, field: Any) -> None:
        raise ArgumentError(
            f"{rows.say(self.name, row)}: {_column.name_of(field)!r} {_no_index}, as an index is; "
            f"text=[{self.name!r}] takes the fields of this column as names")

    def _numbers(self, c: Column, rows: _Rows) -> Array:
        if c.plain is not None and c.plain.dtype.kind in "iu" and c.plain.dtype.itemsize == 8:
            unsigned: Array = c.plain.view(np.uint64)  # one below 0 is a large one
            if int(unsigned.max()) <= LARGEST:
                return unsigned
        if c.plain is not None and c.plain.dtype.kind in "iuf":
            wrong = _no_wholes(c.plain)
            if wrong.any():
                row = int(wrong.argmax())
                self._refuse(rows, row, c.plain[row])
            return c.plain if c.plain.dtype.kind in "iu" else c.plain.astype(np.int64)
        c = _column.coded(c)
        number = np.empty(len(c.fields), dtype=np.int64)
        for i, x in enumerate(c.fields):
            n = _column.index_of(x)
            number[i] = -1 if n is None else n
        indices: Array = number[c.codes]
        if (indices < 0).any():
            row = int((indices < 0).argmax())
            self._refuse(rows, row, c.fields[c.codes[row]])
        return indices

    def _names(self, c: Column, rows: _Rows, first: bool) -> Array:
        c = _column.coded(c)
        names = [_column.name_of(x) for x in c.fields]
        if c.ordered and (first or self.ordered):
            try:
                _column.agree(list(self.index), names)
            except ArgumentError as e:
                raise ArgumentError(f"{rows.say(self.name, 0)}: {e}") from None
            self.ordered = True
            seen: "Iterable[int]" = range(len(names))
        else:
            seen = _in_order(c)
        known = np.full(len(names), -1, dtype=np.int64)
        for i in seen:
            name = names[i]
            if name not in self.index:
                if "\n" in name or "\0" in name:
                    raise ArgumentError(
                        f"{rows.say(self.name, _row_of(c, i))}: text {name!r} has a "
                        f"{'line end' if chr(10) in name else 'NUL byte'}")
                if self.ordered and not c.ordered:
                    raise ArgumentError(
                        f"{rows.say(self.name, _row_of(c, i))}: {name!r} is none of the ordered "
                        "categories "
                        "of the tables before")
                self.index[name] = len(self.index)
            known[i] = self.index[name]
        indices: Array = known[c.codes]
        return indices

    def labels(self) -> "Optional[list[str]]":
        """Names by index, up to the last one that a row has."""
        return list(self.index)[:self.last + 1] if self.text else None

    def tell(self) -> None:
        """In a column of names 7 and 7.0 are two, which may not be meant."""
        if self.said or not self.text or not any(name.isdigit() for name in self.index):
            return
        spelled = min((name for name in self.index if _column.is_spelled(name)), default=None)
        if spelled is not None:
            warn(
                f"column {self.name!r} has names, and some are numbers in several spellings, "
                f"such as {spelled} beside digits "
                f"alone: 7 and 7.0 are two names there; text=[{self.name!r}] says that this is "
                "meant"
            )

    def sort(self, indices: Array) -> Array:
        """Sorts the names of a table that is whole; returns the indices in this order."""
        if not self.text or self.ordered:
            return indices
        names = sorted(self.index)
        place = np.empty(len(names), dtype=np.int64)
        for i, name in enumerate(names):
            place[self.index[name]] = i
        self.index = {name: i for i, name in enumerate(names)}
        sorted_indices: Array = place[indices]
        return sorted_indices


def _in_order(c: Column) -> "list[int]":
    """The codes that rows have, in the order of the first row of each."""
    where = np.full(len(c.fields), c.n)
    where[c.codes[::-1]] = np.arange(c.n)[::-1]
    return [int(i) for i in np.argsort(where, kind="stable") if where[i] < c.n]


def _row_of(c: Column, code: int) -> int:
    return int((c.codes == code).argmax())


def _no_wholes(plain: Array) -> Array:
    """Which numbers are no index."""
    if plain.dtype.kind == "f":
        x = plain.astype(np.float64)  # float16 does not hold the largest index
        wrong: Array = ~((x >= 0) & (x <= LARGEST) & (np.floor(x) == x))
        return wrong
    if plain.size == 0 or int(plain.min()) >= 0 and int(plain.max()) <= LARGEST:
        return np.zeros(1, dtype=bool)
    return (plain < 0) | (plain
                          > LARGEST) if plain.dtype.kind == "i" else plain > np.uint64(LARGEST)


class _Bins:
    """Times of a column, over all tables.

    Bins of equal width, numbered from the first one that a row has.
    """

    text = True
    _sample = 4096  # rows that say what numbers are

    def __init__(self, name: str, width: str, unit: Optional[str]) -> None:
        err = ts_error()
        self.name = name
        texts = [None if x is None else x.encode() for x in (width, unit, name)]
        self._bins = c.c_void_p(check(lib.ts_bins_new(*texts, c.byref(err)), err))
        weakref.finalize(self, lib.ts_bins_free, self._bins)
        self.first, self.last = -1, -1
        self.n_rows = 0

    def take(self, column: Column, rows: _Rows) -> Array:
        """The bin of each row, from the year 1."""
        if column.n == 0:
            return np.empty(0, dtype=np.int64)
        column = _column.coded(_column.of_times(column))
        codes = _in_order(column)
        times = [
            _column.time_of(column.fields[i]).encode(errors="surrogateescape").replace(b"\0", b"?")
            for i in codes
        ]
        place = np.zeros(len(column.fields), dtype=np.int64)
        place[codes] = np.arange(len(codes))
        if self.last < 0:
            some = [times[i] for i in place[column.codes[:self._sample]]]
            lib.ts_bins_look(self._bins, len(some), (c.c_char_p * len(some))(*some))
        bins, taken, err = np.empty(len(times), dtype=np.uint64), c.c_uint64(), ts_error()
        try:
            check(
                lib.ts_bins_of(self._bins, len(times), (c.c_char_p * len(times))(*times),
                               bins.ctypes.data, c.byref(taken), c.byref(err)), err)
        except Error as e:
            raise ArgumentError(
                f"{rows.say(self.name, _row_of(column, codes[taken.value]))}: {e}") from None
        least, most = int(bins.min()), int(bins.max())
        self.first = least if self.last < 0 else min(self.first, least)
        self.last = max(self.last, most)
        self.n_rows += column.n
        indices: Array = bins.astype(np.int64)[place[column.codes]]
        return indices

    def number(self, text: str) -> int:
        """The bin of one time."""
        bins, taken, err = np.empty(1, dtype=np.uint64), c.c_uint64(), ts_error()
        some = (c.c_char_p * 1)(text.encode(errors="surrogateescape"))
        lib.ts_bins_look(self._bins, 1, some)
        check(lib.ts_bins_of(self._bins, 1, some, bins.ctypes.data, c.byref(taken), c.byref(err)),
              err)
        return int(bins[0])

    def _label(self, at: int) -> str:
        label = c.create_string_buffer(32)
        lib.ts_bins_label(self._bins, at, label)
        return label.value.decode()

    def labels(self) -> "Iterator[str]":
        return (self._label(at) for at in range(self.first, self.last + 1))

    def tell(self) -> None:
        """Where all times fall into one bin, numbers may be read in another unit than they are."""
        if self.first == self.last and self.n_rows > 1:
            warn(
                f"column {self.name!r}: all times fall into one bin, that of "
                f"{self._label(self.first)}; time_unit= says what "
                "numbers are")


class _Reader:
    """Reads tables: columns that are modes, values, weights."""

    def __init__(self, columns: "Sequence[str]", value: Optional[str], weights: Optional[str],
                 skip: bool, modes: "Sequence[Union[_Mode, _Bins]]") -> None:
        self.columns, self.value, self.weights = columns, value, weights
        self.skip, self.modes = skip, modes
        self.names = [name for name, mode in zip(columns, modes) if isinstance(mode, _Mode)]
        self.skipped = 0
        self.first = ""  # row that was skipped
        self.chosen: Any = columns  # as the user named the modes

    def _column(self, table: Any, name: str, rows: _Rows) -> Column:
        field = _field(table, name, self.chosen)
        try:
            column = _column.join(_column.read(field))
            return column if name in self.names else _column.of_numbers(column)
        except ArgumentError as e:
            text = str(e)
            where = rows.say(name, 0) if text.startswith("row ") else ""
            raise ArgumentError(
                where.replace("row 0",
                              text.split(":")[0], 1) +
                text[text.index(":"):] if where else f"column {name!r}: {text}") from None

    def read(self, table: Any,
             number: Optional[int]) -> "tuple[list[Array], Array, Optional[Array]]":
        """Indices of the modes, values and weights of the rows that stay."""
        rows = _Rows(number)
        extra = [name for name in (self.value, self.weights) if name is not None]
        names = [*self.columns, *extra]
        columns = [self._column(table, name, rows) for name in names]
        n = columns[0].n if columns else 0
        for name, c in zip(names, columns):
            if c.n != n:
                raise ArgumentError(f"column {name!r} has {c.n} rows, and {names[0]!r} {n}")
        self._leave_out(names, columns, rows)
        if rows.number is not None:
            keep = np.zeros(n, dtype=bool)
            keep[rows.number] = True
            columns = [c.only(keep) for c in columns]
            n = len(rows.number)
        coords = [mode.take(c, rows) for mode, c in zip(self.modes, columns)]
        numbers = []
        for name, c in zip(extra, columns[len(self.columns):]):
            try:
                numbers.append(_column.reals_of(c))
            except ArgumentError as e:
                text = str(e)
                row = int(text[4:text.index(":")]) if text.startswith("row ") else None
                raise ArgumentError(f"column {name!r}: {text}" if row is
                                    None else rows.say(name, row) +
                                    text[text.index(":"):]) from None
        values = np.ones(n) if self.value is None else numbers[0]
        return coords, values, None if self.weights is None else numbers[-1]

    def _leave_out(self, names: "Sequence[str]", columns: "Sequence[Column]", rows: _Rows) -> None:
        """Refuses rows where something is missing, or has them left out."""
        gone = [(name, c.missing) for name, c in zip(names, columns) if c.missing is not None]
        if not gone:
            return
        row, name = min((int(m.argmax()), at) for at, (_, m) in enumerate(gone))
        place = rows.say(gone[name][0], row)
        if not self.skip:
            raise ArgumentError(f"{place}: there is no value; missing='skip' leaves out such rows")
        some = np.logical_or.reduce([m for _, m in gone])
        self.first = self.first or place
        self.skipped += int(some.sum())
        rows.number = np.flatnonzero(~some)


def _field(table: Any, name: Any, chosen: Any) -> Any:
    """A column of a table by its name."""
    try:
        return table[name]
    except Exception as e:
        levels = getattr(getattr(table, "index", None), "names", ())  # of a frame of pandas
        if name is not None and name in levels:
            return table.index.get_level_values(name)
        raise _no_column(table, name, chosen, e) from e


def _column_names(table: Any) -> "list[Any]":
    """The names of the columns of a table."""
    columns: Any = list(table) if isinstance(table, Mapping) else None
    for attribute in ("column_names", "columns"):
        columns = getattr(table, attribute, None) if columns is None else columns
    columns = table.dtype.names if columns is None and isinstance(table, np.ndarray) else columns
    return [] if columns is None else list(columns)


def _no_column(table: Any, name: Any, chosen: Any, e: Exception) -> Exception:
    """What is raised where a table does not give a column; each package has its own exception."""
    if isinstance(chosen, str):
        return ArgumentError(f"modes={chosen!r}: a list of columns is wanted, such as "
                             f"[{chosen!r}, ...]")
    columns = _column_names(table)
    if any(x is name or x == name for x in columns):
        return e
    return ArgumentError(f"there is no column {name!r}; the table has "
                         f"{', '.join(map(repr, columns[:20])) or 'none'}")


class _Spool:
    """Rows of tables on disk, until the first bin of all is known."""

    def __init__(self, rows: "Iterable[tuple[list[Array], Array, Optional[Array]]]",
                 reader: _Reader, folder: str) -> None:
        self.counts: "list[int]" = []
        self.file = tempfile.TemporaryFile(dir=folder)
        try:
            for coords, values, weights in rows:
                coords = [x.astype(np.int64, copy=False) for x in coords]
                for array in (*coords, values, *([] if weights is None else [weights])):
                    array.tofile(self.file)
                self.counts.append(len(values))
        except BaseException:
            self.file.close()
            raise
        self.first = np.array(
            [mode.first if isinstance(mode, _Bins) else 0 for mode in reader.modes], dtype=np.int64)
        self.weighted = reader.weights is not None
        self.file.seek(0)

    def __iter__(self) -> "Iterator[tuple[list[Array], Array, Optional[Array]]]":
        with self.file:
            for n in self.counts:
                coords = [
                    np.fromfile(self.file, dtype=np.int64, count=n) - first for first in self.first
                ]
                values = np.fromfile(self.file, dtype=np.float64, count=n)
                yield coords, values, np.fromfile(self.file, dtype=np.float64,
                                                  count=n) if self.weighted else None


def _of_tables(source: Rows, reader: _Reader, out: Optional[Path], folder: str,
               told: "Callable[[], list[str]]", options: "dict[str, Any]") -> Tensor:
    """A tensor from tables that come one after another. told: what it keeps, once one was read."""
    tables = enumerate(source.table)

    def read_on() -> "Iterator[tuple[list[Array], Array, Optional[Array]]]":
        for number, table in tables:
            got = reader.read(table, number)
            del table
            if len(got[1]) > 0:
                yield got

    rest = read_on()
    if any(isinstance(mode, _Bins) for mode in reader.modes):
        rest = iter(_Spool(rest, reader, folder))
    first = next(rest, None)
    if first is None:
        check_left(0, reader.skipped, reader.first)
        raise ArgumentError("there is no table to build from")
    paths = [
        os.path.join(folder, f"names{m}") if mode.text else None
        for m, mode in enumerate(reader.modes)
    ]
    for path in paths:
        if path is not None:
            open(path, "w").close()

    def batches() -> "Iterator[Any]":
        nonlocal first
        got, first = first, None
        while got is not None:
            coords, values, weights = got
            yield (tuple(coords), values) if weights is None else (tuple(coords), values, weights)
            del coords, values, weights
            got = next(rest, None)
        for path, mode in zip(paths,
                              reader.modes):  # the labels are read when all nonzeros are there
            if path is not None:
                write_labels(path, mode.labels() or (), mode=0)

    options = {"labels": paths, **options, "told": told()}
    return (read_ahead if source.ahead else from_batches)(batches(), out, **options)


def _told(reader: _Reader, widths: "Mapping[Any, str]", source: Rows) -> "list[str]":
    """What the tensor is to keep of the columns, so that later tables can be appended."""
    ret = [f"value={'none' if reader.value is None else reader.value}", "text_base=0",
           f"names={'sorted' if source.whole else 'seen'}"]
    if reader.weights is not None:
        ret.append(f"weights={reader.weights}")
    for m, (name, mode) in enumerate(zip(reader.columns, reader.modes), 1):
        field = "time" if name in widths else "name" if mode.text else "number"
        ret += [f"column.{m}={name}", f"field.{m}={field}", f"size.{m}=none"]
        if name in widths:
            ret.append(f"bin.{m}={widths[name]}")
    return ret


def from_frame(frame: Any, modes: "Optional[Sequence[Any]]" = None, value: Any = None,
               out: Optional[Path] = None, *, weights: Any = None,
               text: "Union[str, Sequence[Any]]" = (), bin: "Optional[Mapping[Any, str]]" = None,
               time_unit: "Union[None, str, Mapping[Any, str]]" = None, missing: str = "error",
               columns: "Optional[Sequence[Any]]" = None, **options: Any) -> Tensor:
    """Builds a tensor from a table, or from several tables one after another. Chosen columns become
    modes.

    Parameters
    ----------
    frame : table, or iterable of tables
        A table is a pandas.DataFrame, a pyarrow.Table or RecordBatch, a polars.DataFrame, or a
        mapping of names to arrays. An iterable, such as a pyarrow.RecordBatchReader, is read one
        table at a time, and so are a polars.LazyFrame, a pyarrow Dataset, and the path of a file of
        Parquet, Arrow or feather.
    modes : sequence of str
        Columns that become modes. Whole numbers from 0 of any type are indices: 7 and 7.0 are index
        7. A column is text if `text` names it, if its type is text, or if a field is not a whole
        number. Each different text gets an index and is its label. Two spellings such as "7" and
        "7.0" are two texts, and a warning reports them. Texts are sorted; in an iterable they keep
        the order of first appearance, and ordered categories keep their order. Different texts are
        held in memory.
    value : str, optional
        Column of the values. Without it each row counts as 1.
    weights : str, optional
        Column of the weights of cells, as in :func:`from_batches` and ``tshard build --weights``.
    text : str or sequence of str
        Columns that are text, even if their fields look like numbers. In an iterable, a column that
        has whole numbers in the first table and texts later needs it.
    bin : dict of str to str, optional
        Columns that are times, with the width of their bins, as in ``tshard build --bin``:
        ``{"week": "7d"}``. Bins without a row are empty slices. Labels are the starts of the bins.
        A warning appears if all times fall into one bin.
    time_unit : str, or dict of str to str, optional
        Unit of numbers in all such columns, or in one: 's', 'ms', 'us' or 'ns' since 1970, 'date'
        (20240131), 'year', or 'iso' (numbers are not times). By default the start of the column
        decides. An ambiguous column is an error that names both readings.
    columns : sequence of str, optional
        The name of `modes` before 0.3. It warns.
    missing : {'error', 'skip'}
        What to do with rows with a missing field (null, NaN, NaT, masked or empty). 'error': the
        first one is an error with row and column. 'skip': all are left out. A warning and
        ``Tensor.skipped`` give their number.
    out, **options
        As in :func:`from_batches`.

    Returns
    -------
    Tensor
    """
    modes = renamed("columns", columns, "modes", modes)
    names_of_columns(value=value, weights=weights, text=text)
    wanted = wanted_columns(modes, value, weights)
    if isinstance(frame, (str, bytes, os.PathLike)):
        kind = _files.kind_of(frame)
        if kind is None:
            raise InputTypeError(
                f"{os.fsdecode(frame)}: is no file of Parquet or Arrow; build(path, modes=...) "
                "reads tables of text"
            )
        source = _files.read_files([frame], kind, wanted, None)
    elif isinstance(frame, (list, tuple)):
        source = Rows(iter(frame), False)
    elif hasattr(
            frame,
            "__getitem__") and not isinstance(frame, Mapping) and _inputs.kind_of(frame) is None:
        source = Rows(frame, True)
    else:
        source = _inputs.read(frame, wanted)
    if isinstance(source, _inputs.Batches):
        source = Rows(source.batches, False)
    if not isinstance(source, Rows):
        raise InputTypeError(
            f"{_inputs.described(frame)} is no table: cp and open take it as it is")
    return of_rows(source, modes, value, out, weights=weights, text=text, bin=bin,
                   time_unit=time_unit, missing=missing, **options)


def of_rows(source: Rows, chosen: Any, value: Any, out: Optional[Path], *, weights: Any = None,
            text: Any = (), bin: Any = None, time_unit: Any = None, missing: str = "error",
            known: "Mapping[Any, _Mode]" = {}, **options: Any) -> Tensor:
    """What :func:`from_frame` does, with a table or tables in turn.

    known: modes whose indices are those of something else.
    """
    if chosen is None:
        raise InputTypeError(
            "a table is no tensor by itself: modes=[...] names the columns that are modes, and "
            "value= that of the values"
        )
    if isinstance(chosen, bytes):
        raise InputTypeError(f"modes={chosen!r}: a list of columns is wanted, such as "
                             f"[{chosen!r}, ...]")
    columns = list(chosen)  # a text is a list of columns with names of one letter
    texts = [text] if not isinstance(text, (list, tuple, set, frozenset)) else list(text)
    for name in texts:
        if name not in columns:
            raise ArgumentError(f"text={name!r}: the modes are {', '.join(map(repr, columns))}")
    if not columns:
        raise ArgumentError("modes: the columns that are modes are to be named")
    if bin is not None and not isinstance(bin, Mapping):
        raise ArgumentTypeError(f"bin={shown(bin)}: widths of columns are wanted, such as "
                                f"{{{columns[0]!r}: '7d'}}")
    widths = dict(bin or {})
    units = dict(time_unit) if isinstance(time_unit, Mapping) else {
        name: time_unit
        for name in widths
    }
    for what, given, of in (("bin", widths, columns), ("time_unit", units, list(widths))):
        for name in given:
            if name not in of or name in texts:
                raise ArgumentError(f"{what}: {name!r} is not one of {', '.join(map(repr, of))}"
                                    if name not in of else f"{what}: {name!r} is text, too")
    modes: "list[Union[_Mode, _Bins]]" = [
        _Bins(name, widths[name], units.get(name)) if name in widths else known[name]
        if name in known else _Mode(name, name in texts) for name in columns
    ]
    reader = _Reader(columns, value, weights, is_skipping(missing), modes)
    reader.chosen = chosen
    names = options.pop("names", columns)
    if names is not columns and names is not None:
        warn_renamed(
            "names= of from_frame renames modes: rename the columns; it will be an error in the "
            "release after the next"
        )
    options = {"modes": names, **options}

    def told() -> "list[str]":
        return _told(reader, widths, source)

    if not source.whole:
        place = options.get("tmp") or (None if out is None else os.path.dirname(
            os.path.abspath(os.fsdecode(out))))
        with tempfile.TemporaryDirectory(
                dir=None if place is None else os.fsdecode(place)) as folder:
            t = _of_tables(source, reader, out, folder, told, options)
    else:
        coords, values, weighted = reader.read(source.table, None)
        check_left(len(values), reader.skipped, reader.first)
        coords = [
            x - mode.first if isinstance(mode, _Bins) else mode.sort(x)
            for mode, x in zip(modes, coords)
        ]
        options = {
            "labels": [mode.labels() for mode in modes],
            "shape":
            [mode.last + 1 - (mode.first if isinstance(mode, _Bins) else 0) or 1 for mode in modes],
            **options,
            "told": told()
        }
        options.setdefault("expect", n_nonzeros(values, _inputs.STEP, options))
        columns = [values] if weighted is None else [values, weighted]
        t = from_batches(_inputs.cut(coords, *columns), out, **options)
    for mode in modes:
        mode.tell()
    if not known:
        warn_empty(t)
    return count_skipped(t, reader.skipped, reader.first)
