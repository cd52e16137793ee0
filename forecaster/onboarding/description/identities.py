"""Sums among columns of numbers: A + B = C, and partitions of one total."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

_FEWEST_ROWS = 12  # complete rows needed to find an identity
_MOST_COLUMNS = 40
_NEARLY_ALL = 0.95  # share of the rows in which a sum holds
_TOLERANCE = 0.5


@dataclass(frozen=True)
class Identity:
    """Two groups of columns with equal sums in nearly all rows."""

    left: tuple[str, ...]
    right: tuple[str, ...]

    @property
    def total(self) -> str | None:
        """Column that is the sum of the others; None if both groups have several."""
        return self.left[0] if len(self.left) == 1 else None


def identities(numbers: Mapping[str, Any]) -> tuple[Identity, ...]:
    """Identities among columns, which are vectors of equal length; smallest group first.

    They are the rows of the reduced echelon form of the table's null space that only have entries
    of 0, 1 and -1. Rows of the table with a gap are dropped; columns of zeros are ignored.
    """
    names = [name for name, values in numbers.items() if np.nanmax(values, initial=0) > 0][:_MOST_COLUMNS]
    if len(names) < 3:
        return ()
    table = np.column_stack([numbers[name] for name in names]).astype(float)
    table = table[np.isfinite(table).all(axis=1)]
    if len(table) < max(_FEWEST_ROWS, len(names)):
        return ()
    exact_sums = [_whole(names, table, place) for place in range(len(names))]
    # exact sums first: those of rounded numbers are hard to distinguish from chance
    for tolerance in (1e-6, _TOLERANCE / 2):
        relations = [_identity(row, names, table) for row in _echelon(_null_space(table, tolerance))]
        identity_set = {identity for identity in [*exact_sums, *relations] if identity is not None}
        if identity_set:
            return tuple(sorted(identity_set, key=lambda each: (len(each.left), each.left)))
    return ()


def _null_space(table: Any, tolerance: float) -> Any:
    """Combinations of columns that are zero within a tolerance per row, as rows."""
    scaled = table / np.abs(table).max()
    _, sizes, vectors = np.linalg.svd(scaled, full_matrices=True)
    slack = tolerance / np.abs(table).max() * np.sqrt(len(table))
    rank = int((np.pad(sizes, (0, table.shape[1] - len(sizes))) > slack).sum())
    return vectors[rank:]


def _whole(names: list[str], table: Any, place: int) -> Identity | None:
    """Identity of a column that is the sum of all others."""
    signs = np.full(len(names), -1.0)
    signs[place] = 1.0
    return _identity(signs, names, table)


def _echelon(basis: Any) -> Any:
    """Reduced row echelon form."""
    matrix, row = np.array(basis), 0
    for column in range(matrix.shape[1] if len(matrix) else 0):
        if row == len(matrix):
            break
        pivot = row + int(np.abs(matrix[row:, column]).argmax())
        if abs(matrix[pivot, column]) < 1e-3:
            continue
        matrix[[row, pivot]] = matrix[[pivot, row]]
        matrix[row] /= matrix[row, column]
        is_other = np.arange(len(matrix)) != row
        matrix[is_other] -= np.outer(matrix[is_other, column], matrix[row])
        row += 1
    return matrix[:row]


def _identity(relation: Any, names: list[str], table: Any) -> Identity | None:
    signs = np.rint(relation).astype(int)
    if np.abs(relation - signs).max() > 0.05 or np.abs(signs).max() > 1:
        return None
    left = [name for name, sign in zip(names, signs, strict=True) if sign > 0]
    right = [name for name, sign in zip(names, signs, strict=True) if sign < 0]
    if not left or not right or len(left) + len(right) < 3:
        return None
    if (np.abs(table @ signs) <= _TOLERANCE).mean() < _NEARLY_ALL:
        return None
    return Identity(*sorted((tuple(left), tuple(right)), key=len))
