# SPDX-License-Identifier: BSD-3-Clause
"""Columns of tables: pandas, pyarrow, polars, NumPy and lists, read alike.

A column becomes a :class:`Column`: numbers, times, or codes of distinct fields, with a mark for
each row where something is missing. No library is imported here: a column brings its own.
"""

import datetime
import decimal
import re
import sys
from typing import Any, Iterable, Optional, Sequence

import numpy as np

from ._lib import ArgumentError, Array

LARGEST = (1 << 40) - 1  # index of a mode
_absent = frozenset(("", "nan", "na", "n/a", "null", "none", "nat", "<na>", "-nan", "+nan", "#n/a",
                     "#na", "#n/a n/a", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan", "\\n",
                     "missing"))  # as src/source/text/number_text.c has them
_number = re.compile(r"\+?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")


class Column:
    """What one column of one table holds.

    Attributes
    ----------
    plain : ndarray or None
        Numbers, datetime64 or timedelta64, a field a row. What stands where a field is missing is
        of no matter.
    codes : ndarray of int64
        Without `plain`: positions in `fields`, -1 where a field is missing.
    fields : list
        Distinct fields, as they were given.
    ordered : bool
        The order of `fields` is that of the categories.
    missing : ndarray of bool, or None
    """

    def __init__(self, n: int, missing: Optional[Array], *, plain: Optional[Array] = None,
                 codes: Optional[Array] = None, fields: "Sequence[Any]" = (),
                 ordered: bool = False) -> None:
        self.n, self.plain, self.ordered = n, plain, ordered
        self.codes: Array = np.empty(0, dtype=np.int64) if codes is None else codes
        self.fields = list(fields)
        self.missing = missing if missing is not None and missing.any() else None

    def only(self, keep: Array) -> "Column":
        """Of the rows that stay."""
        missing = None if self.missing is None else self.missing[keep]
        if self.plain is not None:
            return Column(int(keep.sum()), missing, plain=self.plain[keep])
        return Column(int(keep.sum()), missing, codes=self.codes[keep], fields=self.fields,
                      ordered=self.ordered)


def _is_missing(x: Any) -> bool:
    """None, NaN, NaT, pandas.NA, a masked element, an empty text.

    A text of blanks is a name, as in files where it is in quotes.
    """
    if isinstance(x, (str, bytes)):
        return not x
    if x is None or x is np.ma.masked or type(x).__name__ == "NAType":
        return True
    if isinstance(x, decimal.Decimal):
        return x.is_nan()
    try:
        return bool(x != x)
    except (TypeError, ValueError):
        return False


def _key(x: Any) -> Any:
    """Fields of one key are one: 1 and True are equal for Python, and two."""
    return x if isinstance(x, str) else (type(x), x)


def _of_objects(objects: "Iterable[Any]", n: int) -> Column:
    index: "dict[Any, int]" = {}
    fields: "list[Any]" = []
    codes = np.empty(n, dtype=np.int64)
    for i, x in enumerate(objects):
        if type(x) is not str and _is_missing(x):
            codes[i] = -1
            continue
        try:
            code = index.setdefault(_key(x), len(fields))
        except TypeError:
            raise ArgumentError(
                f"row {i}: {type(x).__name__} is neither a number, nor a text or a time") from None
        if code == len(fields):
            fields.append(x)
        codes[i] = code
    return _of_codes(codes, fields)


def _of_codes(codes: Array, fields: "Sequence[Any]", ordered: bool = False) -> Column:
    """Codes below 0 are missing, and so are those of fields that are."""
    codes = np.maximum(np.asarray(codes).astype(np.int64), -1)
    gone = np.fromiter((_is_missing(x) for x in fields), dtype=bool, count=len(fields))
    if gone.any():
        codes = np.append(np.where(gone, -1, np.cumsum(~gone) - 1), -1)[codes]
        fields = [x for x, g in zip(fields, gone) if not g]
    return Column(len(codes), codes < 0, codes=codes, fields=fields, ordered=ordered)


def _of_array(array: Array, missing: Optional[Array] = None) -> Column:
    """An array of NumPy; `missing` are rows that something else says are."""
    if np.ma.isMaskedArray(array):
        masked = np.ma.getmaskarray(array)
        missing, array = (masked if missing is None else masked | missing), np.ma.getdata(array)
    if array.ndim != 1:
        raise ArgumentError(f"it has {array.ndim} dimensions: one is wanted")
    kind = array.dtype.kind
    if kind in "iu":
        return Column(len(array), missing, plain=array)
    gone = np.zeros(len(array), dtype=bool) if missing is None else np.asarray(missing, dtype=bool)
    if kind == "f":
        return Column(len(array), gone | np.isnan(array), plain=array)
    if kind in "mM":
        return Column(len(array), gone | np.isnat(array), plain=array)
    if kind == "b":
        return _of_codes(np.where(gone, -1, array), [False, True])
    if kind in "USTO":
        objects = array.tolist()
        if kind == "S":
            objects = [x.decode(errors="surrogateescape") for x in objects]
        if gone.any():
            objects = [None if g else x for x, g in zip(objects, gone)]
        return _of_objects(objects, len(objects))
    raise ArgumentError(f"it is of {array.dtype}: numbers, texts or times are wanted")


# ---- pyarrow ----


def _of_arrow(array: Any) -> "list[Column]":
    """A column for each piece of an arrow array."""
    return [_of_arrow_piece(x) for x in (array.chunks if hasattr(array, "chunks") else [array])]


def _of_arrow_piece(array: Any) -> Column:
    kind = str(array.type)
    if hasattr(array, "storage"):  # an extension type
        return _of_arrow_piece(array.storage)
    if kind.startswith("run_end_encoded"):
        return _of_objects(array.to_pylist(), len(array))
    if kind.startswith("dictionary"):
        codes = array.indices
        gone = codes.is_null().to_numpy(zero_copy_only=False)
        numbers = codes.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return _of_codes(np.where(gone, -1, numbers), array.dictionary.to_pylist(),
                         bool(array.type.ordered))
    if kind.endswith("string_view") or kind.endswith("binary_view"):
        array = array.cast("large_string" if kind == "string_view" else "large_binary")
        kind = str(array.type)
    if kind in ("string", "large_string", "binary",
                "large_binary") or kind.startswith("fixed_size_binary"):
        return _of_arrow_piece(array.dictionary_encode())
    gone = array.is_null().to_numpy(zero_copy_only=False) if array.null_count > 0 else None
    if kind.startswith(("int", "uint")):
        return Column(
            len(array), gone,
            plain=(array if gone is None else array.fill_null(0)).to_numpy(zero_copy_only=False))
    if kind in ("halffloat", "float", "double") or kind.startswith(
        ("date", "timestamp", "duration")):
        return _of_array(array.to_numpy(zero_copy_only=False), gone)
    if kind in ("bool", "null") or kind.startswith(("decimal", "time")):
        return _of_objects(array.to_pylist(), len(array))
    raise ArgumentError(f"it is of arrow's type {kind}: numbers, texts or times are wanted")


# ---- pandas and polars ----


def _of_pandas(series: Any) -> "list[Column]":
    if getattr(series, "ndim", 1) != 1:
        raise ArgumentError("several columns have this name")
    dtype, gone = series.dtype, np.asarray(series.isna(), dtype=bool)
    name = type(dtype).__name__
    if isinstance(dtype, np.dtype):
        return [_of_array(np.asarray(series), gone)]
    if name == "CategoricalDtype":
        return [
            _of_codes(series.cat.codes.to_numpy(), series.cat.categories.tolist(),
                      bool(dtype.ordered))
        ]
    if name == "ArrowDtype":
        return _of_arrow(series.array.__arrow_array__())
    if name == "DatetimeTZDtype":
        return [_of_array(series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy(), gone)]
    if name == "StringDtype":
        codes, fields = series.factorize()
        return [_of_codes(codes, fields.tolist())]
    if name.startswith(("Int", "UInt")) and dtype.kind in "iu":
        return [_of_array(series.to_numpy(dtype=dtype.numpy_dtype, na_value=0), gone)]
    if name.startswith("Float"):
        return [_of_array(series.to_numpy(dtype=dtype.numpy_dtype, na_value=np.nan), gone)]
    if name == "SparseDtype":
        return [_of_array(np.asarray(series), gone)]
    return [_of_objects((None if g else x for x, g in zip(series.tolist(), gone)), len(gone))]


def _of_polars(series: Any) -> Column:
    kind = str(series.dtype)
    gone = series.is_null().to_numpy()
    if kind.startswith("Enum"):
        codes = series.to_physical().cast(_same_module(series, "Int64")).fill_null(-1).to_numpy()
        return _of_codes(codes, series.dtype.categories.to_list(), True)
    if kind in ("Int128", "UInt128"):  # NumPy has no such type
        try:
            series = series.cast(_same_module(series, "Int64"))
        except Exception as e:
            raise ArgumentError(f"it is of polars' type {kind}, and a number does not fit into "
                                "64 bits") from e
    if kind.startswith(("Int", "UInt")):
        return Column(len(series), gone, plain=series.fill_null(0).to_numpy())
    if kind.startswith(("Float", "Datetime", "Date", "Duration")):
        return _of_array(series.to_numpy(), gone)
    if kind in ("String", "Utf8") or kind.startswith("Categorical"):
        return _of_polars_names(series, gone)
    if kind in ("Binary", "Boolean", "Null", "Time") or kind.startswith(("Decimal", "Object")):
        return _of_objects(series.to_list(), len(series))
    raise ArgumentError(f"it is of polars' type {kind}: numbers, texts or times are wanted")


def _of_polars_names(series: Any, gone: Array) -> Column:
    """Texts by the codes of polars; each text becomes one of Python once."""
    names = series.cast(_same_module(series, "Categorical"))
    codes = names.to_physical().cast(_same_module(series, "Int64")).fill_null(-1).to_numpy()
    rows = np.flatnonzero(~gone)
    last = np.full(int(codes.max()) + 1 if rows.size else 0, -1)  # a row of each code
    last[codes[rows]] = rows
    used = np.flatnonzero(last >= 0)
    place = np.full(len(last) + 1, -1)
    place[used] = np.arange(len(used))
    return _of_codes(place[codes], series.gather(last[used]).cast(_same_module(series, "String"))
                     .to_list())


def _same_module(thing: Any, name: str) -> Any:
    return getattr(sys.modules[type(thing).__module__.split(".")[0]], name)


# ---- any column ----


def read(column: Any) -> "list[Column]":
    """A column of a table, in pieces where it is stored so."""
    home = type(column).__module__.split(".")[0]
    if home == "pyarrow":
        return _of_arrow(column)
    if home == "pandas":
        several = getattr(column, "ndim", 1) != 1
        return _of_pandas(
            column if several or hasattr(column, "cat") else _same_module(column, "Series")(column))
    if home == "polars":
        return [_of_polars(column)]
    if isinstance(column,
                  (list, tuple)) and any(isinstance(x, (str, bytes)) or x is None for x in column):
        return [_of_objects(column, len(column))]  # an array would be as wide as the longest text
    return [
        _of_array(np.ma.asanyarray(column) if np.ma.isMaskedArray(column) else np.asarray(column))
    ]


# ---- what fields are called ----


def _fraction(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _time_name(x: Any) -> str:
    """A time without a zone: a date at midnight, as many digits of seconds as there are."""
    if isinstance(x, np.datetime64) and np.datetime_data(x)[0] in ("h", "m"):
        x = x.astype("datetime64[s]")
    text = _fraction(str(x).replace(" ", "T"))
    return text[:-9] if text.endswith("T00:00:00") else text


def name_of(x: Any) -> str:
    """What a field is called, which is the same for 7 and 7.0."""
    if isinstance(x, str):
        return x
    if isinstance(x, bytes):
        return x.decode(errors="surrogateescape")
    if isinstance(x, (bool, np.bool_)):
        return str(bool(x))
    if isinstance(x, (int, np.integer)):
        return str(int(x))
    if isinstance(x, (float, np.floating)):
        return str(int(x)) if float(x).is_integer() else str(x)
    if isinstance(x, decimal.Decimal):
        return str(int(x)) if x == x.to_integral_value() else str(
            x.normalize(decimal.Context(prec=len(x.as_tuple().digits))))
    if isinstance(x, np.datetime64):
        return _time_name(x)
    if isinstance(x, datetime.datetime):
        if x.tzinfo is not None:
            x = x.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        return _time_name(x.isoformat())
    return str(x)


def is_spelled(name: str) -> bool:
    """Whether a name is a whole number, but not by its digits alone."""
    return not name.isdigit() and index_of(name) is not None


def of_numbers(column: Column) -> Column:
    """A column of numbers or times: texts that stand for nothing there are missing, as in files."""
    gone = [
        isinstance(x, (str, bytes)) and name_of(x).strip(" \t").lower() in _absent
        for x in column.fields
    ]
    if column.plain is not None or not any(gone):
        return column
    return _of_codes(np.where(np.append(gone, False)[column.codes], -1, column.codes),
                     column.fields, column.ordered)


def of_times(column: Column) -> Column:
    """A column of times, where years, months and weeks are their first days, and not numbers."""
    plain = column.plain
    if plain is None or plain.dtype.kind != "M" or np.datetime_data(
            plain.dtype)[0] not in ("Y", "M", "W"):
        return of_numbers(column)
    return Column(column.n, column.missing, plain=plain.astype("datetime64[D]"))


def indices_of(column: Column) -> Optional[Array]:
    """The whole numbers of a column that is none of an array, as int64.

    None where a field is something else.
    """
    if not all(
            isinstance(x, (int, np.integer)) and not isinstance(x, bool) and abs(int(x)) <= LARGEST
            for x in column.fields):
        return None
    numbers: Array = np.array([int(x) for x in column.fields] + [0], dtype=np.int64)[column.codes]
    return numbers


def time_of(x: Any) -> str:
    """A time as the library reads it: numbers with all of their digits, dates of ISO 8601."""
    if isinstance(x, np.datetime64) and np.datetime_data(x)[0] in ("Y", "M", "W"):
        x = x.astype("datetime64[D]")
    if hasattr(x, "start_time"):  # a period of pandas
        x = x.start_time
    if isinstance(x, datetime.date):
        return x.isoformat()
    if isinstance(x, (float, np.floating)):
        return repr(float(x))
    return name_of(x).strip()


def index_of(x: Any) -> Optional[int]:
    """The whole number that a field is, from 0 to the largest index; None where it is none."""
    if isinstance(x, (bool, np.bool_)):
        return None
    if isinstance(x, (int, np.integer)):
        n = int(x)
    elif isinstance(x, (float, np.floating)):
        if not float(x).is_integer():
            return None
        n = int(x)
    elif isinstance(x, (str, decimal.Decimal)):
        if isinstance(x, str) and not _number.fullmatch(x.strip()):
            return None
        d = decimal.Decimal(x.strip() if isinstance(x, str) else x)
        if not d.is_finite() or not 0 <= d <= LARGEST or d != d.to_integral_value():
            return None
        n = int(d)
    else:
        return None
    return n if 0 <= n <= LARGEST else None


def is_text(x: Any) -> bool:
    """Whether the type of a field says that its column is text."""
    return not isinstance(x, (int, float, np.integer, np.floating, decimal.Decimal)) or isinstance(
        x, bool)


def coded(column: Column) -> Column:
    """The same column with codes; fields of numbers are Python's, of times what they are called."""
    if column.plain is None:
        return column
    plain, there = column.plain, None if column.missing is None else ~column.missing
    distinct, inverse = np.unique(plain if there is None else plain[there], return_inverse=True)
    codes = np.full(column.n, -1, dtype=np.int64)
    codes[slice(None) if there is None else there] = inverse.reshape(-1)
    kind = distinct.dtype.kind
    if kind == "M":
        fields: "list[Any]" = [_time_name(x) for x in distinct]
    elif kind == "m":
        fields = [str(x) for x in distinct]
    elif kind == "f":
        fields = list(distinct)  # float32's 0.1 is called so
    else:
        fields = distinct.tolist()
    return Column(column.n, column.missing, codes=codes, fields=fields)


def join(pieces: "Sequence[Column]") -> Column:
    """One column of pieces that follow each other."""
    if len(pieces) == 1:
        return pieces[0]
    n = sum(p.n for p in pieces)
    gone = np.zeros(n, dtype=bool)
    at = 0
    for p in pieces:
        if p.missing is not None:
            gone[at:at + p.n] = p.missing
        at += p.n
    if pieces and all(p.plain is not None for p in pieces) and len(
        {p.plain.dtype
         for p in pieces if p.plain is not None}) == 1:
        return Column(n, gone,
                      plain=np.concatenate([p.plain for p in pieces if p.plain is not None]))
    index: "dict[Any, int]" = {}
    fields: "list[Any]" = []
    parts = [np.empty(0, dtype=np.int64)]
    ordered = any(p.ordered for p in pieces)
    for p in map(coded, pieces):
        if ordered:
            agree([name_of(x) for x in fields], [name_of(x) for x in p.fields])
        where = np.empty(len(p.fields) + 1, dtype=np.int64)
        where[-1] = -1
        for i, x in enumerate(p.fields):
            where[i] = index.setdefault(_key(x), len(fields))
            if where[i] == len(fields):
                fields.append(x)
        parts.append(where[p.codes])
    return Column(n, gone, codes=np.concatenate(parts), fields=fields, ordered=ordered)


def agree(known: "Sequence[str]", names: "Sequence[str]") -> None:
    """Refuses ordered categories of another order than those before; more of them may follow."""
    place = {name: i for i, name in enumerate(known)}
    last = -1
    for i, name in enumerate(names):
        at = place.get(name, len(known) + i)
        if at <= last or (at >= len(known) and last < len(known) - 1 and len(known) > 0):
            raise ArgumentError(
                f"ordered categories have another order than those before, at {name!r}: give all "
                "tables the same"
            )
        last = at


def reals_of(column: Column) -> Array:
    """A column of values as float64, NaN where they are missing."""
    if column.plain is not None:
        if column.plain.dtype.kind not in "iuf":
            raise ArgumentError(f"it is of {column.plain.dtype}: real numbers are wanted")
        values: Array = column.plain.astype(np.float64, copy=column.missing is not None)
        if column.missing is not None:
            values[column.missing] = np.nan
        return values
    numbers = np.empty(len(column.fields) + 1)
    numbers[-1] = np.nan
    for i, x in enumerate(column.fields):
        try:
            numbers[i] = float(x)
        except (TypeError, ValueError):
            used = np.flatnonzero(column.codes == i)
            if used.size:
                raise ArgumentError(f"row {used[0]}: {x!r} is not a number") from None
            numbers[i] = np.nan
    return numbers[column.codes]
