"""What of a growing graph is retained, as pages of nodes and of edges. Contract 2, 4.1.

What is kept depends on the sequence of registration alone, never on how it was cut into
calls: an open page is charged by its decoded size, a closed one by its stored size, and the
first item that does not fit ends its kind for good. A batch that surely fits is taken as a
whole; one that may not is halved, down to the single item.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise

from django_ray.progress.pages import (
    Candidate,
    Manifest,
    Page,
    manifest_digest,
    seal,
    unpack,
)
from django_ray.protocol import canonical
from django_ray.protocol.limits import Limits
from django_ray.protocol.records import NodeItem, PageKind
from django_ray.protocol.vocabulary import TruncationReason

Edges = tuple[int, int, tuple[int, ...]]
"""A target's ordinal, and its sources: how many, and as runs (first, count, …)."""

Pair = tuple[int, int]
"""An edge as it is encoded: target, source."""


class Pager:
    """The pages of one kind: the closed ones by digest, and the open tail."""

    def __init__(self, kind: PageKind, limits: Limits) -> None:
        self._kind: PageKind = kind
        self._items = limits.page_items
        # A page is cut by its decoded size, so that the cut depends on its items alone;
        # it is stored compressed only where that is smaller.
        self._size = min(limits.page_encoded, limits.page_decoded)
        self._closed: list[bytes] = []
        self._closed_encoded = 0
        self._closed_decoded = 0
        self._fresh: list[Page] = []
        self._tail = bytearray()
        self._tail_items = 0
        self.count = 0

    def resume(self, pages: Sequence[Page]) -> None:
        """Go on with stored pages, in order; the last is open while it has room."""
        for page in pages:
            self.count += page.item_count
        if pages and pages[-1].item_count < self._items:
            last = pages[-1]
            self._tail = bytearray(unpack(last.body, last.encoding)[:-1])
            self._tail_items = last.item_count
            pages = pages[:-1]
        for page in pages:
            self._note(page)

    def _note(self, page: Page) -> None:
        self._closed.append(page.digest)
        self._closed_encoded += len(page.body)
        self._closed_decoded += page.decoded_size

    @property
    def encoded(self) -> int:
        """Bound the stored bytes from above: the tail as if it were not compressed."""
        return self._closed_encoded + self._tail_bytes

    @property
    def decoded(self) -> int:
        """Count the canonical bytes of all pages."""
        return self._closed_decoded + self._tail_bytes

    @property
    def _tail_bytes(self) -> int:
        return len(self._tail) + 1 if self._tail else 0

    def pieces(self, items: Sequence[NodeItem] | Sequence[Pair]) -> list[bytes]:
        """Encode `items` cut as their number cuts them into pages, open tail first."""
        start = min(self._items - self._tail_items, len(items)) if self._tail else 0
        cuts = [0, start] if start else [0]
        cuts += range(start + self._items, len(items), self._items)
        if cuts[-1] < len(items):
            cuts.append(len(items))
        return [canonical.encode(items[a:b]) for a, b in pairwise(cuts)]

    def cost(self, pieces: Sequence[bytes]) -> int:
        """Count the bytes that `pieces` add; one that joins the tail needs no bracket."""
        return sum(map(len, pieces)) - bool(pieces and self._tail)

    def fits(self, pieces: Sequence[bytes]) -> bool:
        """Claim that no piece would close its page early, by size."""
        if not pieces:
            return True
        # The tail starts with the bracket that the piece has as well.
        sizes = [len(pieces[0]) + len(self._tail), *map(len, pieces[1:])]
        return max(sizes) <= self._size

    def put(self, pieces: Sequence[bytes], count: int) -> None:
        """Append pieces that fit; `count` items in all."""
        self.count += count
        left = count
        for piece in pieces:
            taken = min(self._items - self._tail_items, left)
            self._tail += b"," if self._tail else b"["
            self._tail += memoryview(piece)[1:-1]
            self._tail_items += taken
            left -= taken
            if self._tail_items == self._items:
                self.close()

    def close(self) -> None:
        """Close the tail, if there is one: it is never reopened."""
        if not self._tail:
            return
        page = self._open_page()
        self._note(page)
        self._fresh.append(page)
        self._tail = bytearray()
        self._tail_items = 0

    def pages(self) -> tuple[list[bytes], list[Page], int, int]:
        """Return all digests, the pages that may be unknown, stored and decoded bytes."""
        digests, fresh = list(self._closed), list(self._fresh)
        encoded, decoded = self._closed_encoded, self._closed_decoded
        if self._tail:
            page = self._open_page()
            digests.append(page.digest)
            fresh.append(page)
            encoded += len(page.body)
            decoded += page.decoded_size
        return digests, fresh, encoded, decoded

    def forget(self, stored: frozenset[bytes]) -> None:
        """Drop the bodies of closed pages that are stored for good."""
        self._fresh = [page for page in self._fresh if page.digest not in stored]

    def _open_page(self) -> Page:
        return seal(self._kind, self._tail_items, bytes(self._tail) + b"]")


class Topology:
    """The retained nodes and edges of one run, in registration order.

    `extend` takes what was registered, whole nodes with their edges; what was taken before
    is ignored, so a publication that failed may hand it in again. `candidate` builds the
    next version, `promoted` confirms one.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._nodes = Pager("nodes", limits)
        self._edges = Pager("edges", limits)
        self._seen = 0
        self._ended: dict[PageKind, TruncationReason] = {}
        self._stored: frozenset[bytes] = frozenset()
        # Beside a topology the run holds its stage row, events, session and bequest, and for
        # the time of a promotion two superseded tail pages.
        extras = (
            limits.stage_row
            + limits.events * (limits.event_encoded + 1)
            + limits.session_snapshot
            + limits.bequest
        )
        self._run_encoded = limits.run_encoded - extras - 2 * limits.page_encoded
        self._run_decoded = limits.run_decoded - extras - 2 * limits.page_decoded

    @property
    def node_count(self) -> int:
        """Count the retained nodes."""
        return self._nodes.count

    @property
    def edge_count(self) -> int:
        """Count the retained edges."""
        return self._edges.count

    @property
    def reasons(self) -> frozenset[TruncationReason]:
        """Name why nodes or edges were not retained."""
        return frozenset(self._ended.values())

    @property
    def detail_room(self) -> int:
        """Count the bytes that the run's cap leaves for node detail."""
        encoded = self._nodes.encoded + self._edges.encoded
        decoded = self._nodes.decoded + self._edges.decoded
        return min(self._run_encoded - encoded, self._run_decoded - decoded)

    @property
    def ended(self) -> Mapping[PageKind, TruncationReason]:
        """Say of each kind that takes no more why it does not."""
        return self._ended

    def resume(
        self, pages: Sequence[Page], ended: Mapping[PageKind, TruncationReason]
    ) -> None:
        """Go on with a published topology, node pages first."""
        self._nodes.resume([page for page in pages if page.kind == "nodes"])
        self._edges.resume([page for page in pages if page.kind == "edges"])
        self._seen = self._nodes.count
        self._ended = dict(ended)
        self._stored = frozenset(page.digest for page in pages)

    def extend(self, nodes: Sequence[NodeItem], edges: Sequence[Edges]) -> None:
        """Take registered nodes, by ordinal without a gap, and their edges."""
        if nodes and nodes[0].ordinal < self._seen:
            nodes = nodes[self._seen - nodes[0].ordinal :]
            edges = [each for each in edges if each[0] >= self._seen]
        self._seen += len(nodes)
        self._extend(nodes, edges)

    def candidate(self, version: int) -> Candidate:
        """Build the topology as it stands, with the pages not promoted yet."""
        digests, fresh, encoded, decoded = self._nodes.pages()
        more, further, also_encoded, also_decoded = self._edges.pages()
        digests += more
        manifest = Manifest(
            version=version,
            node_count=self.node_count,
            edge_count=self.edge_count,
            encoded_bytes=encoded + also_encoded,
            decoded_bytes=decoded + also_decoded,
            digests=tuple(digests),
            digest=manifest_digest(self.node_count, self.edge_count, digests),
        )
        pages = [page for page in fresh + further if page.digest not in self._stored]
        return Candidate(manifest=manifest, pages=tuple(pages))

    def promoted(self, manifest: Manifest) -> None:
        """Note that `manifest` is published: its pages need not be sent again."""
        self._stored = frozenset(manifest.digests)
        self._nodes.forget(self._stored)
        self._edges.forget(self._stored)

    def _extend(self, nodes: Sequence[NodeItem], edges: Sequence[Edges]) -> None:
        if not nodes or "nodes" in self._ended or self._take(nodes, edges):
            return
        if len(nodes) > 1:
            half = len(nodes) // 2
            first = nodes[half].ordinal
            self._extend(nodes[:half], [each for each in edges if each[0] < first])
            self._extend(nodes[half:], [each for each in edges if each[0] >= first])
            return
        self._take_one("nodes", nodes)
        if "nodes" not in self._ended and "edges" not in self._ended:
            self._take_edges(edges)

    def _take(self, nodes: Sequence[NodeItem], edges: Sequence[Edges]) -> bool:
        pairs: list[Pair] = []
        if "edges" not in self._ended:
            if self.edge_count + _number(edges) > self._limits.retained_edges:
                return False
            pairs = _pairs(edges)
        left, right = self._nodes.pieces(nodes), self._edges.pieces(pairs)
        cost = self._nodes.cost(left) + self._edges.cost(right)
        if not self._nodes.fits(left) or not self._edges.fits(right):
            return False
        if self._refusal(len(nodes), len(pairs), cost) is not None:
            return False
        self._nodes.put(left, len(nodes))
        self._edges.put(right, len(pairs))
        return True

    def _take_edges(self, edges: Sequence[Edges]) -> None:
        room = self._limits.retained_edges - self.edge_count
        # One more than there is room for, so that the limit is met and named.
        self._halve_edges(_pairs(edges)[: room + 1])

    def _halve_edges(self, pairs: Sequence[Pair]) -> None:
        if not pairs or "edges" in self._ended:
            return
        pieces = self._edges.pieces(pairs)
        cost = self._edges.cost(pieces)
        if self._edges.fits(pieces) and self._refusal(0, len(pairs), cost) is None:
            self._edges.put(pieces, len(pairs))
        elif len(pairs) > 1:
            half = len(pairs) // 2
            self._halve_edges(pairs[:half])
            self._halve_edges(pairs[half:])
        else:
            self._take_one("edges", pairs)

    def _take_one(
        self, kind: PageKind, items: Sequence[NodeItem] | Sequence[Pair]
    ) -> None:
        pager = self._nodes if kind == "nodes" else self._edges
        pieces = pager.pieces(items)
        if not pager.fits(pieces):
            pager.close()
        added = (1, 0) if kind == "nodes" else (0, 1)
        reason = self._refusal(*added, pager.cost(pieces))
        if reason is None and not pager.fits(pieces):
            reason = TruncationReason.topology_size_limit
        if reason is None:
            pager.put(pieces, 1)
        else:
            self._ended[kind] = reason

    def _refusal(self, nodes: int, edges: int, cost: int) -> TruncationReason | None:
        limits = self._limits
        if self.node_count + nodes > limits.retained_nodes:
            return TruncationReason.node_count_limit
        if self.edge_count + edges > limits.retained_edges:
            return TruncationReason.edge_count_limit
        encoded = self._nodes.encoded + self._edges.encoded + cost
        decoded = self._nodes.decoded + self._edges.decoded + cost
        if encoded > limits.topology_encoded or decoded > limits.topology_decoded:
            return TruncationReason.topology_size_limit
        reserve = limits.node_reserve * (self.node_count + nodes)
        if reserve > min(limits.detail_encoded, limits.detail_decoded):
            return TruncationReason.detail_size_limit
        if encoded + reserve > self._run_encoded:
            return TruncationReason.run_size_limit
        if decoded + reserve > self._run_decoded:
            return TruncationReason.run_size_limit
        return None


def _number(edges: Sequence[Edges]) -> int:
    return sum(count for _, count, _ in edges)


def _pairs(edges: Sequence[Edges]) -> list[Pair]:
    return [
        (target, source)
        for target, count, runs in edges
        # As many runs as sources: each is the first of its run.
        for source in (runs[::2] if 2 * count == len(runs) else _sources(runs))
    ]


def _sources(runs: tuple[int, ...]) -> Iterator[int]:
    pairs = zip(runs[::2], runs[1::2], strict=True)
    return chain.from_iterable(range(first, first + count) for first, count in pairs)
