# SPDX-License-Identifier: BSD-3-Clause
"""Tables that calls return."""

from typing import Any, Dict


def table_of(columns: "Dict[str, Any]") -> Any:
    """A pandas.DataFrame, or a list of dict where pandas is not installed."""
    try:
        import pandas
    except ImportError:
        return [dict(zip(columns, row)) for row in zip(*(list(x) for x in columns.values()))]
    return pandas.DataFrame(columns)
