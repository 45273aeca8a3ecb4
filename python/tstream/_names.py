# SPDX-License-Identifier: BSD-3-Clause
"""Names of modes and labels of rows that a model has without a tensor."""

from typing import Any, List, Optional, Sequence

import numpy as np

from ._lib import ArgumentError, Mode


class Names:
    """Names and labels of a model whose rows come from two tensors, as a tensor gives them."""

    def __init__(
        self,
        mode_names: "Sequence[Optional[str]]",
        labels: "Sequence[Optional[List[Optional[str]]]]",
    ) -> None:
        self.mode_names = tuple(mode_names)
        self.order = len(self.mode_names)
        self._labels = labels
        self._handle = True

    def mode(self, mode: Mode) -> int:
        if isinstance(mode, str):
            if mode not in self.mode_names:
                raise ArgumentError(f"no mode is called {mode!r}")
            return self.mode_names.index(mode)
        return int(mode)

    def labels(self, mode: Mode, index: Any) -> "list[Optional[str]]":
        of = self._labels[self.mode(mode)]
        index = np.asarray(index)
        return [None if of is None else of[int(i)] for i in index]

    def _open(self) -> Any:
        raise ArgumentError(
            "rows of this model were folded in, so it has no tensor of its own: name one"
        )

    @property
    def nnz(self) -> int:
        return int(self._open())

    @property
    def dense(self) -> bool:
        return bool(self._open())
