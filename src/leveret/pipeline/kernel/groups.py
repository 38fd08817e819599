"""Sorting and grouping of rows, for all subjects.

Every subject uses the same few steps. `in_order` sorts rows by a key and, within it, by time. `numbered` gives rows
with equal keys the same small number, so that `np.bincount` can count them. `Segments` are the groups of rows that a
sort has put side by side. `Index` finds the row with a number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leveret.pipeline.kernel.columns import NEVER, NO_ROW, NULL, Array

# With at most this many possible keys for each row, a table with an entry for each key replaces a sort.
_KEYS_A_ROW = 16
# Numbers that are spread more widely than this are ranked before they are combined with others.
_SPREAD = 1 << 32


def in_order(*keys: Array) -> Array:
    """Return the rows in the order of these keys. Rows with equal keys keep their order, which is that of time."""
    return np.lexsort(keys[::-1])


def numbered(*keys: Array) -> Numbering:
    """Number the rows by these keys: equal keys get equal numbers, which follow the order of the keys."""
    if not len(keys[0]):
        return Numbering(np.zeros(0, np.int64), np.zeros(0, np.int64))
    number, first = _numbered_by_one(keys[0])
    for key in keys[1:]:
        low, span = _range_of(key)
        if span > _SPREAD:
            key, span, low = _numbered_by_one(key)[0], len(key), 0
        number, first = _numbered_by_one(number * span + _from_zero(key, low))
    return Numbering(number, first)


@dataclass(frozen=True)
class Numbering:
    """Rows numbered by a key: the `number` of each row, and the `first` row of each number."""

    number: Array
    first: Array

    @property
    def count(self) -> int:
        """The number of different keys."""
        return len(self.first)

    def counts(self, where: Array | None = None) -> Array:
        """Count the rows of each number; with `where`, only the rows for which it is true."""
        return np.bincount(self.number if where is None else self.number[where], minlength=self.count)

    def sums(self, values: Array) -> Array:
        """Sum the values of each number's rows."""
        return np.bincount(self.number, weights=values, minlength=self.count).astype(np.int64)

    def highest(self, values: Array) -> Array:
        """Return the highest value of each number's rows."""
        found = np.full(self.count, NULL)
        np.maximum.at(found, self.number, values)
        return found

    def lowest(self, values: Array) -> Array:
        """Return the lowest value of each number's rows; NEVER if there is none."""
        found = np.full(self.count, NEVER)
        np.minimum.at(found, self.number, values)
        return found


@dataclass(frozen=True)
class Segments:
    """Groups of rows that stand side by side: the first row of each (`starts`), and the group of each row (`of`)."""

    starts: Array
    of: Array

    @classmethod
    def between(cls, *keys: Array) -> Segments:
        """Return the groups of rows with equal keys, for rows that are sorted by them."""
        is_start = np.zeros(len(keys[0]), bool)
        is_start[:1] = True
        for key in keys:
            is_start[1:] |= key[1:] != key[:-1]
        return cls(np.flatnonzero(is_start), np.cumsum(is_start) - 1)

    @property
    def count(self) -> int:
        """The number of groups."""
        return len(self.starts)

    @property
    def last(self) -> Array:
        """The last row of each group."""
        return np.append(self.starts[1:], len(self.of))[: self.count] - 1

    def first_where(self, mask: Array) -> Array:
        """Return the first row of each group for which the mask is true, or NO_ROW."""
        rows = np.flatnonzero(mask)[::-1]
        return self._assigned(rows)

    def last_where(self, mask: Array) -> Array:
        """Return the last row of each group for which the mask is true, or NO_ROW."""
        return self._assigned(np.flatnonzero(mask))

    def _assigned(self, rows: Array) -> Array:
        # Of several rows of a group, the last one assigned stays.
        found = np.full(self.count, NO_ROW)
        found[self.of[rows]] = rows
        return found

    def lowest(self, values: Array, mask: Array) -> Array:
        """Return the lowest value of each group where the mask is true, or NULL."""
        if not self.count:
            return np.zeros(0, np.int64)
        found = np.minimum.reduceat(np.where(mask & (values != NULL), values, NEVER), self.starts)
        return np.where(found == NEVER, NULL, found)

    def highest(self, values: Array) -> Array:
        """Return the highest value of each group; NULL if all are."""
        if not self.count:
            return np.zeros(0, np.int64)
        found: Array = np.maximum.reduceat(values, self.starts)
        return found

    def counts(self, kinds: Array, kind_count: int) -> Array:
        """Return a row for each group with the number of its rows of each kind."""
        counted = np.bincount(self.of * kind_count + kinds, minlength=self.count * kind_count)
        return counted.reshape(self.count, kind_count)

    def running_sum(self, values: Array) -> Array:
        """Return the sum of the values from the start of the group to each row."""
        total = np.cumsum(values)
        if not self.count:
            return total
        before: Array = total[self.starts] - values[self.starts]
        return total - before[self.of]

    def least_after(self, values: Array) -> Array:
        """Return the lowest value among the rows that follow in the group, or NEVER; negative values do not count."""
        if not self.count:
            return np.zeros(0, np.int64)
        # One walk backwards through all groups: each group has its own range of numbers, lower than those after it.
        nothing = max(int(values.max()), 0) + 1
        assert (nothing + 1) * (self.count + 1) < NEVER, "too many groups for such values"
        offset = self.of * (nothing + 1)
        walked = np.minimum.accumulate((np.where(values >= 0, values, nothing) + offset)[::-1])[::-1]
        # A row does not count itself, and nothing follows a group's last row.
        found = np.append(walked[1:], NEVER) - offset
        found[self.last] = nothing
        return np.where(found == nothing, NEVER, found)

    def greatest_after(self, values: Array) -> Array:
        """Return the highest value among the rows that follow in the group, or -1; negative values do not count."""
        top = int(values.max(initial=0))
        least = self.least_after(np.where(values >= 0, top - values, -1))
        return np.where(least == NEVER, -1, top - least)


def held_counts(group: Array, begin: Array, until: Array) -> tuple[Array, Array]:
    """Return how many copies a group holds when a hold begins, itself included: the hold's row, and the number.

    The result is sorted by group and time. `begin` and `until` are positions of events.
    """
    has_end = np.flatnonzero(until != NO_ROW)
    row = np.concatenate([np.arange(len(begin)), has_end])
    at = np.concatenate([begin, until[has_end]])
    change = np.concatenate([np.ones(len(begin), np.int64), np.full(len(has_end), -1)])
    order = in_order(group[row], at)
    row, change = row[order], change[order]
    unacked = Segments.between(group[row]).running_sum(change)
    is_begin = change == 1
    return row[is_begin], unacked[is_begin]


def most_held(group: Array, begin: Array, until: Array, count: int) -> Array:
    """Return how many copies each of so many groups holds at most."""
    row, held = held_counts(group, begin, until)
    most = np.zeros(count, np.int64)
    np.maximum.at(most, group[row], held)
    return most


class Index:
    """The rows of a column of numbers, found by the number. Of equal numbers, the last row is found."""

    def __init__(self, keys: Array) -> None:
        if len(keys) > 1 and not (keys[1:] > keys[:-1]).all():
            self._rows = np.argsort(keys, kind="stable")
            self._keys = keys[self._rows]
        else:
            self._rows, self._keys = np.arange(len(keys)), keys

    def find(self, keys: Array) -> Array:
        """Return the row of each of these numbers, or NO_ROW."""
        if not len(self._keys):
            return np.full(len(keys), NO_ROW)
        place = np.searchsorted(self._keys, keys, side="right") - 1
        return np.where((place >= 0) & (self._keys[place] == keys), self._rows[place], NO_ROW)


def identified(file: Array, number: Array, *others: Array) -> list[Array]:
    """Return one number for each pair of a file and a number, with NO_ROW for NULL; `others` get numbers of the same.

    Messages and copies count from one in each worker's file.
    """
    every = np.concatenate([number, *others])
    low, span = _range_of(every[every != NULL])
    if span * (int(file.max(initial=0)) + 1) > NEVER:
        distinct = np.unique(every)
        ranked = [np.where(of == NULL, NULL, np.searchsorted(distinct, of)) for of in (number, *others)]
        return identified(file, ranked[0], *ranked[1:])
    base = file.astype(np.int64) * span - low
    return [np.where(of == NULL, NO_ROW, base + of) for of in (number, *others)]


def _range_of(key: Array) -> tuple[int, int]:
    """Return the lowest number and how many there are up to the highest. If there is a NULL, it counts as one lower."""
    if not len(key):
        return 0, 1
    low, high = int(key.min()), int(key.max())
    if low == NULL:
        others = key[key != NULL]
        low = int(others.min()) - 1 if len(others) else high
    return low, high - low + 1


def _from_zero(key: Array, low: int) -> Array:
    return np.maximum(key.astype(np.int64, copy=False), low) - low


def _numbered_by_one(key: Array) -> tuple[Array, Array]:
    low, span = _range_of(key)
    if span > _KEYS_A_ROW * len(key):
        _, first, number = np.unique(key, return_index=True, return_inverse=True)
        return number, first
    from_zero = _from_zero(key, low)
    first = np.full(span, NO_ROW)
    first[from_zero[::-1]] = np.arange(len(key) - 1, -1, -1)
    is_used = first >= 0
    return (np.cumsum(is_used) - 1)[from_zero], first[is_used]
