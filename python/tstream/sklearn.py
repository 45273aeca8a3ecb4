# SPDX-License-Identifier: BSD-3-Clause
"""CP decompositions as estimators of scikit-learn, which this module imports."""

# scikit-learn has no types
# mypy: disable-error-code="import-untyped, misc"

from typing import Any, Dict, List, Optional, Tuple

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ._build import from_coo
from ._lib import Array
from ._model import Model
from ._settings import cp
from ._tensor import Tensor, from_array

__all__ = ["CP"]


class CP(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Components of samples, which are mode 0 of an array of two or more dimensions.

    A sample is a slice of the array. ``transform`` gives the row of mode 0 of new samples, with the
    factors of the other modes as they were fitted. NaN cells are unknown.

    Parameters
    ----------
    n_components : int, default 2
        Rank of the decomposition.
    nonneg : bool, default False
        Nonnegative factors, and nonnegative rows of new samples.
    loss : str, default 'least-squares'
        As in :func:`tstream.cp`. Losses whose models are nonnegative imply `nonneg`.
    l2 : float, default 0
        Penalty: half this number times the sum of squares of each factor. Rows of new samples have
        the penalty that they would have in ``fit``, with the other factors as they are.
    n_init : int, default 1
        Starts, of which the one with the best fit counts.
    max_iter : int, default 200
        Maximum number of sweeps.
    tol : float, default 1e-6
        As in :func:`tstream.cp`.
    precision : {'float64', 'float32'}, default 'float64'
        Precision of ``fit``. ``transform`` uses float64.
    gpus : int, str or sequence of int, optional
        As in :func:`tstream.cp`. By default CPU cores compute.
    n_jobs : int, optional
        Threads of ``fit``. None: 1. -1: all.
    random_state : int, RandomState instance or None, default None
        Determines the starts.

    Attributes
    ----------
    factors_ : list of ndarray, shape (size of the mode, n_components)
        Factors of the modes after the samples, with columns of norm 1.
    components_ : ndarray, shape (n_components, ...)
        The same as arrays of the shape of a sample.
    sizes_ : ndarray, shape (n_components,)
        Norms of the columns of the samples that were fitted.
    lengths_ : ndarray, shape (n_components,)
        Lengths of the components without samples in ``fit``, which the penalty `l2` refers to.
    n_iter_ : int
        Sweeps of the best start.
    reconstruction_err_ : float
        Norm of X - model over the known cells of the samples that were fitted.
    n_features_in_ : int
        Size of the first mode after the samples.
    model_ : Model
        The fitted components without samples, as :meth:`Model.fold_in` takes them.

    Examples
    --------
    >>> from tstream.sklearn import CP
    >>> rng = np.random.default_rng(1)
    >>> x = np.einsum("ir,jr,kr->ijk", *[rng.random((n, 2)) for n in (30, 6, 5)])
    >>> model = CP(2, random_state=0).fit(x[:20])
    >>> model.transform(x[20:]).shape
    (10, 2)
    >>> round(model.score(x[20:]), 3)
    1.0
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        nonneg: bool = False,
        loss: str = "least-squares",
        l2: float = 0,
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-6,
        precision: str = "float64",
        gpus: Any = None,
        n_jobs: Optional[int] = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.nonneg = nonneg
        self.loss = loss
        self.l2 = l2
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.precision = precision
        self.gpus = gpus
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return len(self.sizes_)

    def _checked(self, x: Any, reset: bool) -> Array:
        """The array, or what scikit-learn raises for it."""
        x = validate_data(
            self,
            x,
            reset=reset,
            dtype=[np.float64, np.float32],
            allow_nd=True,
            ensure_all_finite="allow-nan",
            ensure_min_samples=1 if not reset else 2,
        )
        if not reset and x.shape[1:] != tuple(len(f) for f in self.factors_):
            raise ValueError(
                f"X has samples of shape {x.shape[1:]}, but {type(self).__name__} is expecting "
                f"{tuple(len(f) for f in self.factors_)}"
            )
        return np.asarray(x)

    def fit(self, X: Any, y: Any = None) -> "CP":
        """Finds the components.

        Parameters
        ----------
        X : array_like, shape (n_samples, ...), of 2 to 8 dimensions
        y : ignored

        Returns
        -------
        CP
            Itself.
        """
        x = self._checked(X, True)
        for name, least in (("n_components", 1), ("n_init", 1), ("max_iter", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)!r}: {least} or more")
        seed = int(check_random_state(self.random_state).randint(1, 2**31 - 1 - self.n_init))
        unknown = bool(np.isnan(x).any())
        settings: "Dict[str, Any]" = dict(
            loss=self.loss,
            nonneg=self.nonneg,
            sweeps=self.max_iter,
            tol=self.tol,
            seed=seed,
            precision=self.precision,
            observed=unknown,
            progress=False,
        )
        if self.l2 or unknown:
            settings["l2"] = float(self.l2)
        settings.update(dict(cpu=True) if self.gpus is None else dict(gpus=self.gpus))
        settings["threads"] = 1 if self.n_jobs is None else max(0, self.n_jobs)
        if not np.nan_to_num(x).any():
            return self._fit_zeros(x)
        t = from_array(x) if self.loss == "least-squares" else self._listed(x, unknown)
        if self.n_init == 1:
            model, n_iter = self._one(cp(t, self.n_components, **settings))
        else:
            several = cp(t, self.n_components, restarts=self.n_init, **settings)
            model, n_iter = self._one(several.best[self.n_components])
        self.factors_, self.sizes_, self.n_iter_ = (
            self._normed(model),
            np.ones(self.n_components),
            n_iter,
        )
        # Where the penalty is least, the columns of a component have one length in all modes.
        self.lengths_ = np.asarray(model.weights) ** (1 - 1 / x.ndim)
        rows = self._rows(x)
        self.sizes_ = np.linalg.norm(rows, axis=0)
        self.reconstruction_err_ = float(np.sqrt(self._left(x, rows)))
        return self

    @staticmethod
    def _listed(x: Array, unknown: bool) -> Tensor:
        """The cells as a list, which losses other than least squares take."""
        known = ~np.isnan(x)
        return from_coo(
            np.argwhere(known),
            x[known],
            x.shape,
            dtype="float64",
            zeros="keep" if unknown else "drop",
        )

    def _fit_zeros(self, x: Array) -> "CP":
        """Of zeros there are no components: columns are zeros."""
        self.factors_ = [np.zeros((n, self.n_components)) for n in x.shape[1:]]
        self.sizes_, self.n_iter_, self.reconstruction_err_ = np.zeros(self.n_components), 1, 0.0
        self.lengths_ = np.zeros(self.n_components)
        return self

    @staticmethod
    def _one(model: Model) -> "Tuple[Model, int]":
        return model, max(1, len(model.history))

    @staticmethod
    def _normed(model: Model) -> "List[Array]":
        ret = [np.array(f, dtype=np.float64) for f in list(model.factors)[1:]]
        for f in ret:
            norm = np.linalg.norm(f, axis=0)
            f /= np.where(norm > 0, norm, 1)
        return ret

    @property
    def model_(self) -> Model:
        check_is_fitted(self, "factors_")
        rank = len(self.sizes_)
        return Model.from_factors(np.ones(rank), [np.zeros((1, rank)), *self.factors_])

    @property
    def components_(self) -> Array:
        check_is_fitted(self, "factors_")
        return self._sum(np.eye(len(self.sizes_)))

    def _rows(self, x: Array) -> Array:
        x = np.asarray(x, dtype=np.float64)
        if self.l2 == 0:
            rows = self.model_.fold_in(x, 0, nonneg=self.nonneg, loss=self.loss)
            return np.array(rows.factors[0])
        # The penalty is that of rows beside columns of these lengths, not of length 1.
        fixed = Model.from_factors(self.lengths_, list(self.model_.factors))
        rows = fixed.fold_in(x, 0, nonneg=self.nonneg, loss=self.loss, l2=self.l2)
        return np.array(rows.factors[0]) * self.lengths_

    def _sum(self, rows: Array) -> Array:
        """The array of these rows."""
        letters = "bcdefgh"[: len(self.factors_)]
        terms = ",".join(letter + "r" for letter in letters)
        return np.asarray(
            np.einsum(
                f"ar,{terms}->a{letters}", rows, *self.factors_, optimize=len(self.factors_) > 1
            )
        )

    def _left(self, x: Array, rows: Array) -> float:
        """The sum of squares of X - model over known cells."""
        return float(np.nansum((x - self._sum(rows)) ** 2))

    def transform(self, X: Any) -> Array:
        """Rows of samples, for columns of norm 1 in the other modes.

        Parameters
        ----------
        X : array_like, shape (n_samples, ...)
            Samples of the shape of those that were fitted.

        Returns
        -------
        ndarray of float64, shape (n_samples, n_components)
        """
        check_is_fitted(self, "factors_")
        return self._rows(self._checked(X, False))

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Array:
        """The same as ``fit(X).transform(X)``."""
        return self.fit(X, y).transform(X)

    def inverse_transform(self, X: Any) -> Array:
        """The model's array of rows.

        Parameters
        ----------
        X : array_like, shape (n_samples, n_components)

        Returns
        -------
        ndarray, shape (n_samples, ...)
        """
        check_is_fitted(self, "factors_")
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.sizes_):
            raise ValueError(f"rows of shape {rows.shape}: (n, {len(self.sizes_)}) is wanted")
        return self._sum(rows)

    def score(self, X: Any, y: Any = None) -> float:
        """The share of the sum of squares of known cells that the model of new samples explains.

        Parameters
        ----------
        X : array_like, shape (n_samples, ...)
        y : ignored

        Returns
        -------
        float
            1 for a perfect model, 0 for one that is no better than zeros.
        """
        check_is_fitted(self, "factors_")
        x = self._checked(X, False).astype(np.float64)
        all_ = float(np.nansum(x**2))
        left = self._left(x, self._rows(x))
        return 1 - left / all_ if all_ > 0 else float(left == 0)
