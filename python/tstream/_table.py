# SPDX-License-Identifier: BSD-3-Clause
"""Tables that calls return, the same with and without pandas."""

import html
import warnings
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union, overload

import numpy as np

from ._lib import Array

_SHOWN = 10  # rows at either end of a printed table


class Table:
    """Rows of named columns.

    A column is a NumPy array: ``table["value"]`` or ``table.value``. ``table[0]`` is a row, a
    dict. Iterating gives the rows. Two tables are equal if their columns are.

    Attributes
    ----------
    columns : list of str
        Names of the columns.
    shape : tuple of int
        Numbers of rows and of columns.

    Examples
    --------
    >>> m = tstream.Model.from_factors([2.0], [[[0.6], [0.8]], [[1.0]]])
    >>> table = m.top(0, mode=0)
    >>> table.value.tolist()
    [0.8, 0.6]
    >>> [int(row["index"]) for row in table]
    [1, 0]
    """

    __slots__ = ("_columns", "_rows")
    __hash__ = None  # type: ignore[assignment]

    _columns: "Dict[str, Array]"
    _rows: "Optional[List[Dict[str, Any]]]"

    def __init__(self, columns: "Mapping[str, Any]",
                 rows: "Optional[Sequence[Mapping[str, Any]]]" = None) -> None:
        self._columns = {name: _column(values) for name, values in columns.items()}
        self._rows = None if rows is None else [dict(row) for row in rows]
        if len({len(x) for x in self._columns.values()}) > 1:
            raise ValueError("columns of a table have one length")

    @classmethod
    def from_rows(cls, rows: "Sequence[Mapping[str, Any]]") -> "Table":
        """A table of dicts with the same keys. None is NaN in a column of numbers."""
        names = list(rows[0]) if rows else []
        return cls({name: [row[name] for row in rows] for name in names}, rows)

    @property
    def columns(self) -> "List[str]":
        return list(self._columns)

    @property
    def shape(self) -> "Tuple[int, int]":
        return len(self), len(self._columns)

    def to_frame(self) -> Any:
        """The table as a ``pandas.DataFrame``.

        Raises
        ------
        ImportError
            pandas is not installed.
        """
        import pandas
        if self._rows is not None:
            return pandas.DataFrame(self._rows, columns=self.columns)
        return pandas.DataFrame({name: list(x) if x.ndim > 1 else x
                                 for name, x in self._columns.items()})

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    def __iter__(self) -> "Iterator[Dict[str, Any]]":
        return (self[i] for i in range(len(self)))

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    @overload
    def __getitem__(self, key: str) -> Array: ...
    @overload
    def __getitem__(self, key: int) -> "Dict[str, Any]": ...
    @overload
    def __getitem__(self, key: "Union[slice, List[str]]") -> "Table": ...

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if key not in self._columns:
                raise KeyError(f"no column is called {key!r}, only {', '.join(self._columns)}")
            return self._columns[key]
        if isinstance(key, slice):
            rows = None if self._rows is None else self._rows[key]
            return Table({name: x[key] for name, x in self._columns.items()}, rows)
        if isinstance(key, list):
            return Table({name: self[name] for name in key})
        i = range(len(self))[key]
        if self._rows is not None:
            return dict(self._rows[i])
        return {name: x[i] for name, x in self._columns.items()}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._columns:
            return self._columns[name]
        try:
            value = getattr(self.to_frame(), name)
        except (ImportError, AttributeError):
            raise AttributeError(f"a table has no column and no attribute {name!r}") from None
        warnings.warn(f"{name} is an attribute of data frames: write table.to_frame().{name}",
                      FutureWarning, stacklevel=2)
        return value

    def __dir__(self) -> "List[str]":
        return [*super().__dir__(), *self._columns]

    def __eq__(self, other: object) -> Any:
        if isinstance(other, list):
            return list(self) == other
        if not isinstance(other, Table):
            return NotImplemented
        return self.columns == other.columns and all(
            _same(x, other._columns[name]) for name, x in self._columns.items())

    def __getstate__(self) -> "Tuple[Any, Any]":
        return self._columns, self._rows

    def __setstate__(self, state: "Tuple[Any, Any]") -> None:
        self._columns, self._rows = state

    def _cells(self) -> "Tuple[List[List[str]], int]":
        """Texts of the first and last rows, and how many rows of between are left out."""
        at = list(range(len(self)))
        left = len(at) - 2 * _SHOWN
        if left > 0:
            at = at[:_SHOWN] + at[-_SHOWN:]
        return [[_text(x[i]) for x in self._columns.values()] for i in at], max(left, 0)

    def __repr__(self) -> str:
        cells, left = self._cells()
        if not cells:
            return f"<tstream.Table without rows: {', '.join(self._columns)}>"
        width = [max(map(len, column)) for column in zip(self._columns, *cells)]
        lines = ["  ".join(x.rjust(n) for x, n in zip(row, width))
                 for row in (list(self._columns), *cells)]
        if left:
            lines.insert(1 + _SHOWN, f"({left} more rows)")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        cells, left = self._cells()
        lines = ["<tr>" + "".join(f"<td>{html.escape(x)}</td>" for x in row) + "</tr>"
                 for row in cells]
        if left:
            lines.insert(_SHOWN, f"<tr><td colspan={len(self._columns)}>{left} more rows</td></tr>")
        head = "".join(f"<th>{html.escape(x)}</th>" for x in self._columns)
        return (f"<table><thead><tr>{head}</tr></thead>\n<tbody>" + "\n".join(lines)
                + "</tbody></table>")


def _column(values: Any) -> Array:
    """Values as an array: texts stay objects, None in numbers is NaN."""
    if isinstance(values, np.ndarray):
        return values
    values = list(values)
    if any(x is None for x in values) and all(
            x is None or isinstance(x, (int, float, np.number)) for x in values):
        return np.array([np.nan if x is None else x for x in values], dtype=np.float64)
    if any(x is None or isinstance(x, str) for x in values):
        ret = np.empty(len(values), dtype=object)
        ret[:] = values
        return ret
    return np.array(values)


def _same(x: Array, y: Array) -> bool:
    numbers = x.dtype.kind == y.dtype.kind == "f"
    return x.shape == y.shape and np.array_equal(x, y, equal_nan=numbers)


def _text(value: Any) -> str:
    """A value as a printed table has it."""
    if value is None:
        return ""
    if isinstance(value, (float, np.floating)):
        return f"{value:.6g}"
    if isinstance(value, np.ndarray):
        return ", ".join(map(_text, value))
    return "".join(x if x.isprintable() else "?" for x in str(value))
