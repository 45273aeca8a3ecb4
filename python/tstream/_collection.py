# SPDX-License-Identifier: BSD-3-Clause
"""Several models of a tensor: ranks and starts."""

import ctypes as c
import json
import math
import os
import warnings
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from ._html import of_collection
from ._lib import ArgumentError, BusyError, FormatError, Path, TstreamWarning, check, lib, ts_error
from ._model import Model
from ._table import Table
from ._tensor import Tensor

_Key = Tuple[int, int]


class _Lazy(Mapping[_Key, Model]):
    """Models that are read when they are asked for, and kept."""

    def __init__(self, names: "Dict[_Key, str]", read_one: "Callable[[str], Model]") -> None:
        self._names = names
        self._read = read_one
        self._models: "Dict[_Key, Model]" = {}

    def __getitem__(self, key: _Key) -> Model:
        if key not in self._models:
            self._models[key] = self._read(self._names[key])
        return self._models[key]

    def __iter__(self) -> "Iterator[_Key]":
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Collection:
    """Models of one tensor with several ranks and starts, from :func:`cp` or :func:`load`.

    ``c[8, 1]`` is the model of rank 8 and seed 1; iterating gives all of them.

    Attributes
    ----------
    models : mapping of (rank, seed) to Model
    best : dict of int to Model
        The best model of each rank: highest fit; with penalties lowest objective; with hold_out lowest error at the
        held-out cells.
    rows : list of dict
        For each model: rank, seed, fit, objective (None without penalties), held_out_rmse and held_out_loss (None
        without hold_out), sweeps, seconds, score, best. `score` is the factor match score with the best model of the
        rank, as in ``tstream compare``; 1 means the same components. `seconds` of models that were computed side by
        side is the time of all of them.

    Examples
    --------
    >>> x = np.arange(12.0).reshape(3, 4)
    >>> c = tstream.cp(x, [1, 2], restarts=2, sweeps=3, cpu=True, progress=False)
    >>> len(c), c[2, 1].rank, list(c.best), len(c.table)
    (4, 2, [1, 2], 4)
    """

    def __init__(self, models: "Mapping[_Key, Model]", rows: "List[Dict[str, Any]]") -> None:
        self.models = models
        self.rows = rows
        self._keys_of_best = {row["rank"]: (row["rank"], row["seed"]) for row in self.rows if row["best"]}

    @classmethod
    def load(cls, path: Path, tensor: "Optional[Tensor]" = None) -> "Collection":
        """What :func:`load` reads, where that is several models.

        Raises
        ------
        ArgumentError
            There is one model.
        """
        from ._model import load
        models = load(path, tensor)
        if not isinstance(models, Collection):
            raise ArgumentError(f"{os.fsdecode(path)}: is one model: Model.load reads it")
        return models

    @property
    def best(self) -> "Dict[int, Model]":
        return {rank: self.models[key] for rank, key in self._keys_of_best.items()}

    @property
    def table(self) -> Table:
        """`rows` as a :class:`Table`."""
        return Table.from_rows(self.rows)

    def __getitem__(self, key: _Key) -> Model:
        if key not in self.models:
            raise KeyError(f"{key!r}: c[rank, seed] is a model of a collection c, and c.best[rank] the "
                           f"best of a rank; it has {', '.join(map(str, list(self.models)[:9]))}")
        return self.models[key]

    def __iter__(self) -> "Iterator[Model]":
        return iter(self.models.values())

    def __len__(self) -> int:
        return len(self.models)

    def __repr__(self) -> str:
        ranks = ", ".join(map(str, self._keys_of_best))
        return f"<tstream.Collection: {len(self)} models, rank {ranks}>"

    def _repr_html_(self) -> str:
        return of_collection(self)

    def __eq__(self, other: object) -> Any:
        """Whether these are equal models of the same ranks and seeds."""
        if not isinstance(other, Collection):
            return NotImplemented
        return self is other or (
            set(self.models) == set(other.models)
            and all(m == other.models[key] for key, m in self.models.items()))

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> "Tuple[Any, Any]":
        return dict(self.models), self.rows

    def __setstate__(self, state: "Tuple[Any, Any]") -> None:
        Collection.__init__(self, *state)

    def __copy__(self) -> "Collection":
        return Collection(self.models, list(self.rows))

    def plot_ranks(self, *, ax: Any = None, figsize: Any = None) -> Any:
        """Draws fits and scores over ranks, as :func:`tstream._plot.plot_ranks` explains.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from ._plot import plot_ranks
        return plot_ranks(self, ax=ax, figsize=figsize)


def rows_of(results: Any) -> "List[Dict[str, Any]]":
    """The rows of models that have just been computed, of the library's."""
    return [dict(rank=r.rank, seed=r.seed, fit=r.fit, objective=r.objective if math.isfinite(r.objective) else None,
                 held_out_rmse=r.held_out_rmse if math.isfinite(r.held_out_rmse) else None,
                 held_out_loss=r.held_out_loss if math.isfinite(r.held_out_loss) else None,
                 sweeps=r.sweeps, seconds=r.seconds, score=r.score, best=bool(r.best)) for r in results]


def _is_model(row: "Dict[str, Any]") -> bool:
    """Whether the name is one that a run of several models gives: it leads to a file."""
    return row["model"] == f"r{row['rank']}.s{row['seed']}" or (
        row.get("fold") is not None and row["model"] == f"r{row['rank']}.f{row['fold']}")


def read(path: str, read_one: "Callable[[str], Model]") -> Collection:
    """What ``tstream cp --restarts`` wrote."""
    file = os.path.join(path, "models.json")
    was = os.stat(path)

    def read_same(name: str) -> Model:
        """A model of the directory that the table is of: what was replaced meanwhile has another."""
        try:
            model = read_one(name)
        finally:
            check_same()
        return model

    def check_same() -> None:
        try:
            same = os.path.samestat(was, os.stat(path))
        except FileNotFoundError:
            same = False
        if not same:
            raise BusyError(f"{path} was replaced or removed while it was being read; try again")

    with open(file, "rb") as f:
        data = f.read()
    check_same()
    err = ts_error()
    if check(lib.ts_json_file_check(os.fsencode(file), data, len(data), c.byref(err)), err) > 0:
        warnings.warn(f"{file}: has no checksum, so a change of it would not be noticed (0.2.0 or before wrote it)",
                      TstreamWarning, stacklevel=3)
    try:
        rows = json.loads(data)["models"]
        if not all(map(_is_model, rows)):
            raise ValueError("a name of no model")
        names = {(row["rank"], row["seed"]): row.pop("model") for row in rows}
        rows = [dict({key: row[key] for key in ("rank", "seed", "fit", "objective", "sweeps", "seconds", "score", "best")},
                     held_out_rmse=row.get("held_out_rmse"), held_out_loss=row.get("held_out_loss")) for row in rows]
    except (KeyError, TypeError, ValueError) as e:
        check_same()
        raise FormatError(f"{file}: is no table of models") from e
    check_same()
    return Collection(_Lazy(names, read_same), rows)
