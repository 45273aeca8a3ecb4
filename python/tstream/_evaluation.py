# SPDX-License-Identifier: BSD-3-Clause
"""How well a model fits the values of a tensor."""

import ctypes as c
from typing import Any, Dict, Optional

import numpy as np

from ._checks import integer
from ._conf import precision_of, session_conf
from ._lib import (ArgumentError, Array, Call, Mode, Size, lib, ts_cpd_score_conf,
                   ts_cpd_score_result, warn)
from ._table import Table
from ._tensor import Tensor


def warn_unseen(unseen: int, n: int) -> None:
    if unseen:
        warn(f"{unseen} of {n} cells have an index whose row in the model is zeros, as one that was "
             "never seen has: the model's 0 there is no prediction")


class Evaluation:
    """How well a model fits the values of a tensor, as ``tstream score`` computes it.

    The weight of a cell multiplies its terms in all figures except `nnz`.

    Attributes
    ----------
    nnz : int
        Nonzeros, or known cells of a dense tensor.
    weight : float
        Sum of their weights, or `nnz` without weights.
    rmse, mae : float
        Root mean square and mean magnitude of value - model.
    mean_value, mean_model : float
        Means at these cells. All four are NaN if all weights are 0.
    gaussian, poisson : float
        Log-likelihoods, NaN if there is none. gaussian: residuals with their own variance. poisson: counts where the
        model is positive, with the model as means; all cells count.
    unseen : int
        Cells with an index whose row in the model is all zeros, such as an index that was never seen. There the 0 is
        not a prediction. A TstreamWarning gives their number.
    top : Table or None
        The nonzeros with the largest residuals, the largest first. Columns are an index for each mode (with its name,
        or ``mode0``), value, model and residual.
    slices : Table or None
        A row for each slice of a mode with a nonzero. Columns are index, label (if the tensor has labels), nnz,
        weight, the sums of values and of values of the model (value, model), rmse and mae. Both
        are NaN in a slice whose cells are unknown or have weight 0.

    Examples
    --------
    >>> m = tstream.Model.from_factors([2.0], [[[1.0], [1.0]], [[1.0], [1.0]]])
    >>> m.evaluate(np.array([[2.0, 1.0], [2.0, 3.0]])).mae
    0.5
    """

    _names = ("nnz", "weight", "rmse", "mae", "mean_value", "mean_model", "gaussian", "poisson", "unseen")
    __slots__ = (*_names, "top", "slices")

    nnz: int
    weight: float
    rmse: float
    mae: float
    mean_value: float
    mean_model: float
    gaussian: float
    poisson: float
    unseen: int
    top: Optional[Table]
    slices: Optional[Table]

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, Evaluation):
            return NotImplemented
        pairs = [(getattr(self, name), getattr(other, name)) for name in self.__slots__]
        return all(x == y or x != x and y != y for x, y in pairs)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Evaluation of {self.nnz} cells: rmse {self.rmse:.6g}, mae {self.mae:.6g}>"


def evaluation_of(handle: Any, tensor: Tensor, top: int, by_slice: Optional[Mode], precision: str, threads: int,
                  host_memory: Size) -> Evaluation:
    """What :meth:`Model.evaluate` does with a tensor."""
    precision = precision_of(precision)
    top = integer("top", top)
    if top < 0:
        raise ArgumentError(f"top={top}: so many nonzeros of largest residual, 0 or more")
    mode = 0 if by_slice is None else tensor.mode(by_slice)
    n = min(top, tensor.nnz)
    index, value, model = np.empty((n, tensor.order), dtype=np.uint64), np.empty(n), np.empty(n)
    of_slices: "Dict[str, Array]" = {}
    if by_slice is not None:
        of_slices["nnz"] = np.empty(tensor.used[mode], dtype=np.uint64)
        for name in ("weight", "value", "model", "rmse", "mae"):
            of_slices[name] = np.empty(tensor.used[mode])
    call = Call()
    conf = ts_cpd_score_conf(mode=mode, float32=precision == "float32", n_top=n, top_index=index.ctypes.data,
                             top_value=value.ctypes.data, top_model=model.ctypes.data,
                             **{"slice_" + name: x.ctypes.data for name, x in of_slices.items()})
    session = session_conf(call, threads=threads, host_memory=host_memory)
    result = ts_cpd_score_result()
    call.run(lib.ts_cpd_score, handle, tensor._open(), c.byref(conf), c.byref(session), c.byref(result))
    ret = Evaluation()
    for name in Evaluation._names:
        setattr(ret, name, getattr(result, name))
    warn_unseen(ret.unseen, ret.nnz)
    ret.top = ret.slices = None
    if top > 0:
        n = result.n_top  # fewer than cells, where some of a dense tensor are unknown
        index, value, model = index[:n], value[:n], model[:n]
        numbers = {"value": value, "model": model, "residual": value - model}
        names = [f"mode{m}" if name is None or name in numbers else name for m, name in enumerate(tensor.mode_names)]
        ret.top = Table({**{name: index[:, m] for m, name in enumerate(names)}, **numbers})
    if by_slice is not None:
        columns: "Dict[str, Any]" = {"index": tensor.used_indices(mode)}
        label = tensor.labels(mode, columns["index"])
        if any(x is not None for x in label):
            columns["label"] = label
        ret.slices = Table({**columns, **of_slices})
    return ret
