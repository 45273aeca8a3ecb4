# SPDX-License-Identifier: BSD-3-Clause
"""What notebooks show of tensors, models and collections."""

import html
from typing import TYPE_CHECKING, Any, Optional, Sequence

import numpy as np

if TYPE_CHECKING:
    from ._collection import Collection
    from ._model import Model
    from ._tensor import Tensor

_COMPONENTS, _LABELS = 10, 3


def _table(head: "Sequence[Any]", rows: "Sequence[Sequence[Any]]") -> str:
    def line(cells: "Sequence[Any]", tag: str) -> str:
        texts = ["".join(x if x.isprintable() else "?" for x in str(cell)) for cell in cells]
        return "<tr>" + "".join(f"<{tag}>{html.escape(x)}</{tag}>" for x in texts) + "</tr>"
    return (f"<table><thead>{line(head, 'th')}</thead>\n<tbody>"
            + "\n".join(line(row, "td") for row in rows) + "</tbody></table>")


def sizes(shape: "Sequence[int]") -> str:
    return " x ".join(map(str, shape))


def mode_name(name: Optional[str], mode: int) -> str:
    return f"mode {mode}" if name is None else name


def of_tensor(t: "Tensor") -> str:
    """Its sizes and modes."""
    kind = "Dense tensor" if t.dense else "Tensor"
    cells = "cells" if t.dense else "nonzeros"
    rows = [(mode_name(name, m), t.shape[m], t.used[m]) for m, name in enumerate(t.mode_names)]
    head = f"{kind} {html.escape(repr(t.path))}: {sizes(t.shape)}, {t.nnz} {cells}, {t.dtype}"
    return f"<p>{head}</p>\n" + _table(("mode", "size", "used"), rows)


def of_model(m: "Model") -> str:
    """Shape, fit, and the weights and strongest indices of the heaviest components."""
    fit = "" if m._last_fit() is None else f", fit {m._last_fit():.6g}"
    heaviest = np.argsort(-np.abs(m.weights), kind="stable")[:_COMPONENTS]
    rows = []
    for r in heaviest:
        row = [str(int(r)), f"{m.weights[r]:.4g}"]
        for mode in range(m.order):
            row.append(", ".join(str(x["index"] if x.get("label") is None else x["label"])
                                 for x in m.top(int(r), mode, _LABELS)))
        rows.append(row)
    head = ["component", "weight", *[mode_name(name, k) for k, name in enumerate(m._names)]]
    more = "" if m.rank <= _COMPONENTS else f"<p>{m.rank - _COMPONENTS} more components</p>"
    return (f"<p>Model: {sizes(m.shape)}, rank {m.rank}, {m.dtype}{fit}</p>\n"
            + _table(head, rows) + more)


def of_collection(c: "Collection") -> str:
    return f"<p>{html.escape(repr(c).strip('<>'))}</p>\n" + c.table._repr_html_()
