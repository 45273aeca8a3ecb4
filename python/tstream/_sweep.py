# SPDX-License-Identifier: BSD-3-Clause
"""What a run tells after each sweep."""

from typing import Any


class Sweep:
    """One sweep over all modes.

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
        With `observed`: root mean square error at the listed cells. With `hold_out`: the same at the held-out cells.
        Else NaN.
    log_likelihood, violation : float
        With loss 'poisson': the sum of x log m over the nonzeros, less the sum of m over all cells; and the largest
        violation of the optimality conditions in the sweep. Else NaN.
    held_out_loss : float
        With `hold_out` and a loss other than 'least-squares': the mean loss at the held-out cells. Else NaN.
    rank, seed : int
        Rank and seed of the model.
    """

    _names = ("sweep", "fit", "change", "seconds", "wait_seconds", "copy_seconds",
              "product_seconds", "solve_seconds", "bytes_read", "n_singular", "n_dead",
              "objective", "rmse", "held_out_rmse", "log_likelihood", "violation", "held_out_loss")
    __slots__ = (*_names, "rank", "seed")

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
    rmse: float
    held_out_rmse: float
    log_likelihood: float
    violation: float
    held_out_loss: float
    objective: float
    rank: int
    seed: int

    def __init__(self, s: Any, rank: int, seed: int) -> None:
        for name in self._names:
            setattr(self, name, getattr(s, name))
        self.rank, self.seed = rank, seed

    def __repr__(self) -> str:
        return f"sweep {self.sweep}: fit {self.fit:.6f} ({self.change:+.2e}), {self.seconds:.3g} s"
