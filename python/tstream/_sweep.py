# SPDX-License-Identifier: BSD-3-Clause
"""What a run tells after each sweep."""

import dataclasses
from typing import Any


@dataclasses.dataclass(eq=False, repr=False)
class Sweep:
    """One sweep over all modes. ``dataclasses.asdict`` makes a dict of it.

    Two sweeps are equal if all of their numbers are; NaN is equal to NaN.

    Attributes
    ----------
    sweep : int
        From 1.
    fit, change : float
        1 - |X - model| / |X|, and its change.
    seconds, wait_seconds, copy_seconds, product_seconds, solve_seconds : float
    bytes_read : int
    n_singular : int
        Modes that needed the pseudo-inverse.
    n_dead : int
        Components that are zero in some mode.
    objective : float
        1/2 |X - model|^2 with penalties; NaN without penalties.
    rmse, held_out_rmse : float
        With `observed`: root mean square error at the listed cells. With `hold_out`: the same at
        the held-out cells. Else NaN.
    log_likelihood, violation : float
        With loss 'poisson': the sum of x log m over the nonzeros, less the sum of m over all
        cells; and the largest violation of the optimality conditions in the sweep. Else NaN.
    held_out_loss : float
        With `hold_out` and a loss other than 'least-squares': the mean loss at the held-out
        cells. Else NaN.
    rank, seed : int
        Rank and seed of the model.

    Examples
    --------
    >>> x = np.arange(12.0).reshape(3, 4)
    >>> m = tstream.cp(x, 1, sweeps=2, tol=0, cpu=True, progress=False)
    >>> dataclasses.asdict(m.history[1])["sweep"]
    2
    """

    sweep: int
    fit: float
    change: float
    seconds: float
    wait_seconds: float
    copy_seconds: float
    product_seconds: float
    solve_seconds: float
    bytes_read: int
    n_singular: int
    n_dead: int
    objective: float
    rmse: float
    held_out_rmse: float
    log_likelihood: float
    violation: float
    held_out_loss: float
    rank: int
    seed: int

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def of(cls, struct: Any, rank: int, seed: int) -> "Sweep":
        """A sweep as the library tells it."""
        args: Any = (*[getattr(struct, name) for name in _names], rank, seed)
        return cls(*args)

    def __eq__(self, other: object) -> Any:
        if type(self) is not type(other):
            return NotImplemented
        pairs = [(getattr(self, f.name), getattr(other, f.name)) for f in dataclasses.fields(self)]
        return all(x == y or x != x and y != y for x, y in pairs)

    def __repr__(self) -> str:
        return f"sweep {self.sweep}: fit {self.fit:.6f} ({self.change:+.2e}), {self.seconds:.3g} s"


_names = tuple(f.name for f in dataclasses.fields(Sweep))[:-2]
