# SPDX-License-Identifier: BSD-3-Clause
"""Functions that take the settings of a run.

Made of src/base/settings.def by scripts/python_settings: do not edit."""

from typing import Any, Callable, Optional, Sequence, Union, overload

import numpy as np

from ._aliases import one_name_each
from ._collection import Collection
from ._conf import Gpus, Precision
from ._folds import compute_folds
from ._lib import Array, Path, Size
from ._model import Model
from ._modes import Bounds, Modes, Penalties
from ._run import compute
from ._seeds import Seed
from ._sweep import Sweep
from ._table import Table

ALIASES = {"iters": "sweeps", "output": "out", "format": "formats", "force": "replace"}

NOT_FOLDS = ("restarts", "hold_out", "hold_out_from", "save_init", "out", "resume", "trace")


@overload
def cp(tensor: Any, rank: "Union[int, np.integer[Any]]", *, restarts: None = None,
       loss: str = "least-squares", optimizer: str = "adam", inner: int = 10, sweeps: int = 50,
       iters: Optional[int] = None, tol: Optional[float] = None, seed: Seed = 1, init: Any = None,
       save_init: bool = False, nonneg: Modes = None, l1: Penalties = None, l2: Penalties = None,
       observed: bool = False, mean: bool = False, l2_scale: str = "none", hold_out: float = 0,
       hold_out_from: float = 0, patience: int = 0, simplex: Modes = None, bounds: Bounds = None,
       orthogonal: Modes = None, smooth: Penalties = None, fix: Modes = None,
       accelerate: bool = False, threads: int = 0, host_memory: Size = None,
       precision: Precision = "float32", out: Optional[Path] = None, output: Optional[Path] = None,
       formats: "Union[str, Sequence[str]]" = "ktensor",
       format: "Union[None, str, Sequence[str]]" = None, rows: str = "all", no_labels: bool = False,
       checkpoint: float = 300, resume: "Union[bool, str]" = False,
       max_time: Optional[float] = None, replace: bool = False, force: Optional[bool] = None,
       cpu: bool = False, gpus: Gpus = None, gpu_memory: Size = None,
       on_sweep: "Optional[Callable[[Sweep], object]]" = None, progress: bool = True,
       modes: "Optional[Sequence[Any]]" = None, value: Any = None, weights: Any = None,
       text: Any = (), bin: Any = None, time_unit: Any = None, missing: str = "error",
       trace: Optional[Path] = None) -> Model: ...


@overload
def cp(tensor: Any, rank: "Union[Sequence[int], Array]", *, restarts: Optional[int] = None,
       loss: str = "least-squares", optimizer: str = "adam", inner: int = 10, sweeps: int = 50,
       iters: Optional[int] = None, tol: Optional[float] = None, seed: Seed = 1, init: Any = None,
       save_init: bool = False, nonneg: Modes = None, l1: Penalties = None, l2: Penalties = None,
       observed: bool = False, mean: bool = False, l2_scale: str = "none", hold_out: float = 0,
       hold_out_from: float = 0, patience: int = 0, simplex: Modes = None, bounds: Bounds = None,
       orthogonal: Modes = None, smooth: Penalties = None, fix: Modes = None,
       accelerate: bool = False, threads: int = 0, host_memory: Size = None,
       precision: Precision = "float32", out: Optional[Path] = None, output: Optional[Path] = None,
       formats: "Union[str, Sequence[str]]" = "ktensor",
       format: "Union[None, str, Sequence[str]]" = None, rows: str = "all", no_labels: bool = False,
       checkpoint: float = 300, resume: "Union[bool, str]" = False,
       max_time: Optional[float] = None, replace: bool = False, force: Optional[bool] = None,
       cpu: bool = False, gpus: Gpus = None, gpu_memory: Size = None,
       on_sweep: "Optional[Callable[[Sweep], object]]" = None, progress: bool = True,
       modes: "Optional[Sequence[Any]]" = None, value: Any = None, weights: Any = None,
       text: Any = (), bin: Any = None, time_unit: Any = None, missing: str = "error",
       trace: Optional[Path] = None) -> Collection: ...


@overload
def cp(tensor: Any, rank: "Union[int, np.integer[Any]]", *, restarts: int,
       loss: str = "least-squares", optimizer: str = "adam", inner: int = 10, sweeps: int = 50,
       iters: Optional[int] = None, tol: Optional[float] = None, seed: Seed = 1, init: Any = None,
       save_init: bool = False, nonneg: Modes = None, l1: Penalties = None, l2: Penalties = None,
       observed: bool = False, mean: bool = False, l2_scale: str = "none", hold_out: float = 0,
       hold_out_from: float = 0, patience: int = 0, simplex: Modes = None, bounds: Bounds = None,
       orthogonal: Modes = None, smooth: Penalties = None, fix: Modes = None,
       accelerate: bool = False, threads: int = 0, host_memory: Size = None,
       precision: Precision = "float32", out: Optional[Path] = None, output: Optional[Path] = None,
       formats: "Union[str, Sequence[str]]" = "ktensor",
       format: "Union[None, str, Sequence[str]]" = None, rows: str = "all", no_labels: bool = False,
       checkpoint: float = 300, resume: "Union[bool, str]" = False,
       max_time: Optional[float] = None, replace: bool = False, force: Optional[bool] = None,
       cpu: bool = False, gpus: Gpus = None, gpu_memory: Size = None,
       on_sweep: "Optional[Callable[[Sweep], object]]" = None, progress: bool = True,
       modes: "Optional[Sequence[Any]]" = None, value: Any = None, weights: Any = None,
       text: Any = (), bin: Any = None, time_unit: Any = None, missing: str = "error",
       trace: Optional[Path] = None) -> Collection: ...


@one_name_each(ALIASES)
def cp(tensor: Any, rank: "Union[int, np.integer[Any], Sequence[int], Array]", *,
       restarts: Optional[int] = None, loss: str = "least-squares", optimizer: str = "adam",
       inner: int = 10, sweeps: int = 50, iters: Optional[int] = None, tol: Optional[float] = None,
       seed: Seed = 1, init: Any = None, save_init: bool = False, nonneg: Modes = None,
       l1: Penalties = None, l2: Penalties = None, observed: bool = False, mean: bool = False,
       l2_scale: str = "none", hold_out: float = 0, hold_out_from: float = 0, patience: int = 0,
       simplex: Modes = None, bounds: Bounds = None, orthogonal: Modes = None,
       smooth: Penalties = None, fix: Modes = None, accelerate: bool = False, threads: int = 0,
       host_memory: Size = None, precision: Precision = "float32", out: Optional[Path] = None,
       output: Optional[Path] = None, formats: "Union[str, Sequence[str]]" = "ktensor",
       format: "Union[None, str, Sequence[str]]" = None, rows: str = "all", no_labels: bool = False,
       checkpoint: float = 300, resume: "Union[bool, str]" = False,
       max_time: Optional[float] = None, replace: bool = False, force: Optional[bool] = None,
       cpu: bool = False, gpus: Gpus = None, gpu_memory: Size = None,
       on_sweep: "Optional[Callable[[Sweep], object]]" = None, progress: bool = True,
       modes: "Optional[Sequence[Any]]" = None, value: Any = None, weights: Any = None,
       text: Any = (), bin: Any = None, time_unit: Any = None, missing: str = "error",
       trace: Optional[Path] = None) -> "Union[Model, Collection]":
    """Decomposes a tensor, with the same bits as ``tstream cp``.

    Ctrl-C ends the run within two seconds. So does an exception in `on_sweep`. With `out` such a
    run can continue later, and also after a crash, with `resume` or with ``tstream cp --resume``.
    The logger ``tstream`` of :mod:`logging` has each sweep, at the level INFO.

    Parameters
    ----------
    tensor : Tensor, path or object
        Whatever :func:`open` takes. A NumPy array, or a file ``data.npy``, is a dense tensor (see
        :func:`from_array`). A table takes `modes` and `value`.
    rank : int or sequence of int
        Number of components, 1 to 2048. Each factor matrix has a column for each component. Several
        ranks give a :class:`Collection` with models of each rank.
    restarts : int, optional
        Number of starts of each rank, with the seeds `seed`, `seed` + 1 and so on. The result is a
        :class:`Collection`, even of one model. The models are computed side by side, as many as
        memory allows. With `out` they are written as by ``tstream cp --restarts``, and `resume`
        keeps finished models. `trace` needs a single model.
    loss : str, default 'least-squares'
        Loss function, one of :func:`losses`: 'least-squares', 'poisson' (counts; CP-APR with
        nonnegative factors), 'bernoulli', 'huber:0.5' and others. Losses after 'poisson' use
        `optimizer` and take a few hundred sweeps. Their fit is the explained share of the deviance.
        They can be combined with `l2`, `nonneg`, `bounds` and `observed`.
    optimizer : {'adam', 'lbfgsb'}, default 'adam'
        Optimizer for losses other than least-squares and poisson. adam takes a step of each mode in
        a sweep, with a new sample of the unlisted cells. lbfgsb (L-BFGS-B) takes one step of all
        modes in a sweep, with the gradients of the last five steps and the same sample throughout.
        lbfgsb needs fewer sweeps on small tensors and with `observed`. It needs memory for twelve
        more models, adam for two.
    inner : int, default 10
        With `loss` poisson: updates of each row while its shard is in memory.
    sweeps, iters : int, default 50
        Maximum number of sweeps over all modes.
    tol : float, optional
        Stop when the fit changes by less than this in a sweep. 0 runs all sweeps. With `loss`
        'poisson': stop when the violation of the optimality conditions is less than this. With
        other losses: stop when none of ten sweeps lowered the loss by this times its total decrease
        since the first sweep. The default is 1e-5 with least squares and otherwise 1e-4.
    seed : int, None, Generator or RandomState, default 1
        Seed of the random initial factors. None: another one each time. A Generator or RandomState
        of NumPy draws it. ``history[0].seed`` is the number.
    init : Model, path, CPTensor, ktensor, (weights, factors), 'nvecs' or Collection, optional
        Initial factors, of this rank. 'nvecs': the leading left singular vectors of each unfolding,
        which depend on `seed` and take about the time of two sweeps. A Model, or the path of one:
        its factors. Its weights count only with constraints. A CPTensor of TensorLy, a ktensor of
        pyttb, ``(weights, factors)`` and a list of factors are models, too. With several models,
        the first model of the same rank starts from a Model, and each model from the one of its
        rank and seed in a Collection. The others start from random numbers.
    save_init : bool, default False
        Also write the initial factors, with all digits, to ``init.ktensor`` in `out`. Another run
        computes the same bits with this file as `init` and the same `seed`. A resumed run writes
        the start that it saved. It can also write random or given factors, but not computed ones
        ('nvecs', or the start of a loss): that is an error.
    nonneg : bool, int, str or sequence of int, str or bool, optional
        Modes, by number from 0 or by name, with nonnegative factors. True: all modes. A sequence of
        bool has an entry for each mode.
    l1 : float or dict or sequence of float, optional
        Penalty: this number times the sum of magnitudes of a factor. A larger number makes more
        entries 0. One number is for all modes, a sequence has one for each mode, and ``{mode:
        number}`` names modes.
    l2 : float or dict or sequence of float, optional
        Penalty: half this number times the sum of squares of a factor. One number is for all modes,
        a sequence has one for each mode, and ``{mode: number}`` names modes.
    observed : bool, default False
        Treat unlisted cells as unknown, not as zeros. This is tensor completion, for example of
        ratings. In a dense tensor, NaN cells are unknown. Each row is solved with its own Gram
        matrix. Fit and RMSE are those at the listed cells. It can be combined with `l2` (0.1 unless
        given), `nonneg`, `bounds` and `fix`. On GPUs the rank for a dense tensor is at most 128 (in
        float64: 64). A cell's weight (tshard build --weights) multiplies its terms in all sums. It
        is the default, with a warning, for least squares of tensors with weights or NaN. For
        'gamma' it is the default if all cells are listed.
    mean : bool, default False
        With `observed`: subtract the mean of the listed cells that are not held out, and fit the
        rest. The result has `rank` components and one more, which adds the mean to every cell. So
        score and predict need no option for the mean.
    l2_scale : {'none', 'count'}, default 'none'
        With `observed`: count `l2` once for each row (none), or once for each nonzero of the row
        (count).
    hold_out : float, default 0
        Share of the listed cells that is excluded from fitting. Each sweep has the error at these
        cells: ``held_out_rmse``, or ``held_out_loss`` with losses other than 'least-squares'.
        Without `observed` the model treats them as zeros, like unlisted cells. In a dense tensor
        they are unknown, and `observed` is implied.
    hold_out_from : float, default 0
        Where that share begins among all cells, from 0 to less than 1. See :func:`cross_validate`.
    patience : int, default 0
        With `hold_out`: stop when the error at the held-out cells has not fallen for this number of
        sweeps. 0: never stop for this reason. The result is the model of the sweep with the lowest
        error, its ``best_sweep``. This needs memory for a second model.
    simplex : int, str or sequence of int, str or bool, optional
        Rows of these factors are nonnegative and sum to 1. An entry is then the share of a
        component. The columns of these modes are not normalised. So the weights come from the
        columns of the other modes alone.
    bounds : pair of float or dict, optional
        Lower and upper number for entries of factors; one of them may be infinite. ``(0, 1)`` is
        for all modes, and ``{mode: (lower, upper)}`` names modes. The columns of these modes are
        not normalised.
    orthogonal : int, str or sequence of int, str or bool, optional
        Orthonormal columns in the factors of these modes. Such a mode needs at least as many
        nonempty slices as components. At least one mode must not be orthogonal, as its factor has
        the scale.
    smooth : dict or sequence of float, optional
        Penalty: half this number times the sum of squared second differences of neighbouring rows.
        ``{mode: number}`` names modes, a sequence has a number for each mode. Use it for modes with
        similar neighbours, such as time. It can be combined with `nonneg`, `bounds`, `l1` and `l2`
        of the same mode.
    fix : int, str or sequence of int, str or bool, optional
        Modes whose factors stay as in `init`, while the others are computed. This gives rows for
        new slices. Other modes may have another size than in `init`; their rows then start from
        random numbers. The result has columns of norm 1, sorted by weight, with fixed signs, also
        in these modes. Rows of empty slices count as 0. ``nonneg=True``, one pair of `bounds` and
        penalties of one number do not apply to these modes.
    accelerate : bool, default False
        Extrapolate between sweeps, so that fewer are needed. From the sixth sweep on, each starts
        at a point extrapolated from the last two. A sweep that lowers the fit or raises the
        objective is discarded. If it was the last sweep, one more follows. It needs memory for a
        second set of factors, least squares of all cells, and no `orthogonal`.
    threads : int, default 0
        Number of threads; 0 uses all CPUs. The result does not depend on it.
    host_memory : int or str, optional
        Memory for shards; the rest is streamed from disk. Factor matrices need memory in addition.
        Default: the free memory of the machine, less an eighth and 64M.
    precision : {'float32', 'float64'}, default 'float32'
        Precision of factor matrices and products. Gram matrices and solves are always float64. When
        the fit is near 1, it is computed from products in float64.
    out, output : path, optional
        Directory for the result, or for all models. Until it is complete, checkpoints lie beside
        it, in ``OUT.partial``. With the format npy the model's large factors are these files,
        mapped, if they hold the same rows (see `rows`).
    formats, format : str or sequence of str, default 'ktensor'
        File formats of the factors: 'ktensor' (text of Tensor Toolbox), 'npy' (NumPy) and 'splatt'
        (text of SPLATT).
    rows : {'all', 'used'}, default 'all'
        Rows of the factors to write. 'all': a row for each index, with zeros for empty slices.
        'used': rows of used slices only, and a file with their indices.
    no_labels : bool, default False
        Leave labels of rows out of the files in `out`. Names of modes and the identity of the
        tensor are written anyway. A model in memory has its labels all the same.
    checkpoint : float, default 300
        Seconds between checkpoints, which take at most a hundredth of the time. 0: a checkpoint
        only when the run is stopped.
    resume : bool or 'auto', default False
        Continue the run of `out` from its last checkpoint. 'auto': only if there is one. `rank`,
        `restarts`, `precision`, `seed`, `accelerate` and constraints must be the same. `sweeps` and
        `tol` may change.
    max_time : float, optional
        Seconds after which the run is stopped (:class:`Stopped`).
    replace, force : bool, default False
        Replace an existing result at `out` or `trace`. The existing result stays until the new one
        is complete. The checkpoint of an unfinished run is deleted. Files that tstream did not
        write are never touched.
    cpu : bool, default False
        Compute on CPU cores, even if there is a GPU.
    gpus : int, str or sequence of int, optional
        Number of GPUs, or which: ``2``, ``"0,2"``, ``[0, 2]``. By default one if there is one, and
        CPU cores for what GPUs do not compute. If GPUs are named, that is an error.
    gpu_memory : int or str, optional
        Memory of each GPU for the whole run. By default the free memory, less a reserve.
    on_sweep : callable, optional
        Called with a :class:`Sweep` after each sweep. The run waits for it. If it raises
        StopIteration, this was the last sweep of the model. Another exception ends the run.
    progress : bool, default True
        Show a bar in a terminal or a notebook, if tqdm is installed.
    modes : sequence of str, optional
        Of a table: the columns that are modes, as in :func:`from_frame`. Of an array: names of its
        modes.
    value : str, optional
        Of a table: the column of values. Without it each row counts as 1. This and the following
        keywords are those of :func:`from_frame`.
    weights : str, optional
        Of a table: the column of weights.
    text : str or sequence of str, default ()
        Of a table: columns that are text.
    bin : dict of str to str, optional
        Of a table: columns that are times, with the width of their bins.
    time_unit : str or dict of str to str, optional
        Of a table: the unit of numbers in such columns.
    missing : {'error', 'skip'}, default 'error'
        Of a table: what to do with rows with a missing field.
    trace : path, optional
        File for a timeline of reads, copies and kernels, which ui.perfetto.dev shows. It appears
        when the run has succeeded.

    Returns
    -------
    Model, or Collection if several ranks or `restarts` are given

    Raises
    ------
    ArgumentError, ArgumentTypeError
        A setting is not possible.
    FileError, FormatError
        The tensor cannot be read, or `out` cannot be written.
    OutOfMemory, LimitError, DeviceError
        The run needs more than there is.
    Stopped
        `max_time` is over.

    Examples
    --------
    >>> x = np.einsum("i,j->ij", [1.0, 2.0], [3.0, 4.0, 5.0])
    >>> m = tstream.cp(x, 1, precision="float64", cpu=True, progress=False)
    >>> m.shape, m.rank, round(m.fit(), 6)
    ((2, 3), 1, 1.0)
    >>> tstream.cp(x, [1, 2], sweeps=2, cpu=True, progress=False)
    <tstream.Collection: 2 models, rank 1, 2>
    """
    ret: "Union[Model, Collection]" = compute(**locals())
    return ret


@one_name_each(ALIASES, ("cross-validation", *NOT_FOLDS))
def cross_validate(tensor: Any, rank: "Union[int, np.integer[Any], Sequence[int], Array]", *,
                   folds: int = 5, loss: str = "least-squares", optimizer: str = "adam",
                   inner: int = 10, sweeps: int = 50, iters: Optional[int] = None,
                   tol: Optional[float] = None, seed: Seed = 1, init: Any = None,
                   nonneg: Modes = None, l1: Penalties = None, l2: Penalties = None,
                   observed: bool = False, mean: bool = False, l2_scale: str = "none",
                   patience: int = 0, simplex: Modes = None, bounds: Bounds = None,
                   orthogonal: Modes = None, smooth: Penalties = None, fix: Modes = None,
                   accelerate: bool = False, threads: int = 0, host_memory: Size = None,
                   precision: Precision = "float32",
                   formats: "Union[str, Sequence[str]]" = "ktensor",
                   format: "Union[None, str, Sequence[str]]" = None, rows: str = "all",
                   no_labels: bool = False, checkpoint: float = 300,
                   max_time: Optional[float] = None, replace: bool = False,
                   force: Optional[bool] = None, cpu: bool = False, gpus: Gpus = None,
                   gpu_memory: Size = None, on_sweep: "Optional[Callable[[Sweep], object]]" = None,
                   progress: bool = True, modes: "Optional[Sequence[Any]]" = None,
                   value: Any = None, weights: Any = None, text: Any = (), bin: Any = None,
                   time_unit: Any = None, missing: str = "error") -> Table:
    """How well models predict held-out cells, as ``tstream cp --folds`` computes it.

    Parameters
    ----------
    tensor, rank
        As in :func:`cp`.
    folds : int, default 5
        Number of folds. A hash of each listed cell and `seed` assigns it to a fold. For each rank
        a model is computed without each fold. The models of all ranks share their passes over the
        tensor.
    loss, optimizer, inner, sweeps, iters, tol, seed, init, nonneg, l1, l2, observed, mean,
    l2_scale, patience, simplex, bounds, orthogonal, smooth, fix, accelerate, threads, host_memory,
    precision, formats, format, rows, no_labels, checkpoint, max_time, replace, force, cpu, gpus,
    gpu_memory, on_sweep, progress, modes, value, weights, text, bin, time_unit, missing
        As in :func:`cp`. With `patience` the best model of each fold counts.

    Returns
    -------
    Table
        A row for each rank: ``rank``, ``errors`` (of each fold: root mean square error, or the mean
        loss with another loss), ``held_out`` (their mean) and ``standard_error`` (of the mean).

    Examples
    --------
    >>> x = np.einsum("i,j->ij", [1.0, 2.0, 3.0, 4.0], [3.0, 4.0, 5.0, 6.0])
    >>> table = tstream.cross_validate(x, [1, 2], folds=2, seed=3, cpu=True, progress=False)
    >>> table.columns
    ['rank', 'errors', 'held_out', 'standard_error']
    """
    return compute_folds(**locals())
