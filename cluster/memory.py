"""Anonymous memory of other processes, followed while a scenario runs.

Pages of Ray's object store are shared between processes and are counted apart.
"""

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

KIB_A_MIB = 1024
EVERY_S = 0.1


def sizes(pid: int) -> tuple[float, float]:
    """Return a process's anonymous and its shared memory, in MiB."""
    found = {}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in ("RssAnon", "RssShmem"):
            found[name] = int(value.split()[0]) / KIB_A_MIB
    return found["RssAnon"], found["RssShmem"]


class Watch:
    """Samples one process's memory until it is left; keeps first, latest and peak."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self.first, self.first_shared = sizes(pid)
        self.peak, self.peak_shared = self.first, self.first_shared

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def growth(self) -> float:
        """Return by how much anonymous memory exceeded its first size, at the most."""
        return self.peak - self.first

    def sample(self) -> float:
        """Look now; return the anonymous memory."""
        anonymous, shared = sizes(self._pid)
        self.peak = max(self.peak, anonymous)
        self.peak_shared = max(self.peak_shared, shared)
        return anonymous

    def _follow(self) -> None:
        while not self._stop.wait(EVERY_S):
            self.sample()
