"""Longest path from a root to each retained node, as its page states it."""

from array import array

BLOCK = 256


class Ranks:
    """Ranks by ordinal, with the maximum of each block of them.

    A dependency on a long run of nodes is answered from the maxima, so that a node which
    joins all before it costs little more than one which joins two.
    """

    def __init__(self) -> None:
        self._ranks = array("i")
        self._tops = array("i")

    def __len__(self) -> int:
        return len(self._ranks)

    def __getitem__(self, ordinal: int) -> int:
        return self._ranks[ordinal]

    def add(self, runs: tuple[int, ...]) -> int:
        """Rank the next node, that depends on `runs`, and return the rank."""
        rank = self.after(runs)
        self.append(rank)
        return rank

    def append(self, rank: int) -> None:
        """Note the rank of the next node, as its page states it."""
        if len(self._ranks) % BLOCK:
            self._tops[-1] = max(self._tops[-1], rank)
        else:
            self._tops.append(rank)
        self._ranks.append(rank)

    def after(self, runs: tuple[int, ...]) -> int:
        """Return the rank of a node that depends on the ranked ones among `runs`."""
        ranks, known = self._ranks, len(self._ranks)
        top = -1
        for first, count in zip(runs[::2], runs[1::2], strict=True):
            if count == 1 and first < known:
                found = ranks[first]
            else:
                found = self._top(first, min(first + count, known))
            if found > top:
                top = found
        return top + 1

    def _top(self, start: int, stop: int) -> int:
        if stop - start <= 2 * BLOCK:
            return max(self._ranks[start:stop], default=-1)
        first, last = -(-start // BLOCK), stop // BLOCK
        top = max(self._tops[first:last])
        if start < first * BLOCK:
            top = max(top, *self._ranks[start : first * BLOCK])
        if last * BLOCK < stop:
            top = max(top, *self._ranks[last * BLOCK : stop])
        return top
