"""Ids are unique exactly, wherever each of them is held, and no file can be found."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_ray.errors import GraphRefused
from django_ray.progress.graph import Graph
from django_ray.progress.spill import BATCH, IN_MEMORY, Ids
from django_ray.protocol.limits import V1

HELD, SMALL = 10, 64


def fill(ids, number, first=0):
    for ordinal in range(first, first + number):
        ids.add(f"node-{ordinal}", ordinal)
    return ids


@pytest.mark.parametrize(
    ("number", "spilled"),
    [
        (HELD, 0),
        (HELD + SMALL - 1, 0),
        (HELD + SMALL, SMALL),
        (HELD + SMALL + 1, SMALL),
        (HELD + 2 * SMALL, 2 * SMALL),
    ],
)
def test_ids_past_those_held_go_to_the_file_a_batch_at_a_time(number, spilled):
    ids = fill(Ids(HELD, SMALL), number)

    assert ids.spilled == spilled
    assert all(ids.get(f"node-{ordinal}") == ordinal for ordinal in range(number))


def test_an_id_that_was_not_added_is_not_known_wherever_the_others_are():
    ids = fill(Ids(HELD, SMALL), HELD + 3 * SMALL // 2)

    assert ids.get("node-") is None
    assert ids.get("Node-0") is None
    assert not any(ids.get(f"other-{place}") for place in range(1_000))


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)))
def test_ids_that_differ_at_all_are_two(texts):
    ids = Ids(0, 1)
    distinct = list(dict.fromkeys(texts))
    for ordinal, text in enumerate(distinct):
        assert ids.get(text) is None
        ids.add(text, ordinal)

    assert ids.spilled == len(distinct)
    assert [ids.get(text) for text in distinct] == list(range(len(distinct)))


@pytest.mark.deep
def test_a_graph_past_the_ids_held_refuses_every_one_of_them_again():
    graph = Graph(V1)
    number = IN_MEMORY + BATCH + 2
    for ordinal in range(number):
        graph.register(f"n{ordinal}", "label", "stage", ())

    for ordinal in (0, IN_MEMORY - 1, IN_MEMORY, number - 3, number - 1):
        assert graph.register(f"n{ordinal}", "label", "stage", ()) == (ordinal, None)
        with pytest.raises(GraphRefused, match="same id"):
            graph.register(f"n{ordinal}", "another", "stage", ())
    assert len(graph) == number


def test_threads_that_take_turns_share_the_file():
    ids = fill(Ids(0, SMALL), SMALL)
    thread = threading.Thread(target=fill, args=(ids, SMALL, SMALL))
    thread.start()
    thread.join()

    assert ids.spilled == 2 * SMALL
    assert ids.get(f"node-{2 * SMALL - 1}") == 2 * SMALL - 1


def in_process(body, tmp_path, **limits):
    """Run `body` with 40,000 ids of 250 bytes added, in a process of its own."""
    program = f"""
import logging, resource, sys
from pathlib import Path
from django_ray.progress.spill import BATCH, Ids
logging.basicConfig(stream=sys.stdout, format="%(message)s")
resource.setrlimit(resource.RLIMIT_FSIZE, ({limits.get("file", -1)},) * 2)
names = [f"{{ordinal:06d}}" + "x" * 244 for ordinal in range(40_000)]
ids = Ids(0, BATCH)
for added, name in enumerate(names, 1):
    ids.add(name, added - 1)
{body}
"""
    environment = {
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
        "SQLITE_TMPDIR": str(tmp_path),
        "PATH": os.environ["PATH"],
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs procfs")
def test_the_file_has_no_name_while_it_is_in_use(tmp_path):
    folder = str(tmp_path)

    told = in_process(
        f"""
import os
print(ids.spilled, os.listdir({folder!r}))
links = [os.readlink(f"/proc/self/fd/{{fd}}") for fd in os.listdir("/proc/self/fd")
         if os.path.islink(f"/proc/self/fd/{{fd}}")]
print(sum(link.startswith({folder!r}) for link in links))
""",
        tmp_path,
    )

    # Written there, as its descriptor says, and not to be found by a name.
    assert told.splitlines() == [f"{40_000 // BATCH * BATCH} []", "1"]


def test_a_file_that_cannot_be_written_never_makes_an_id_new(tmp_path):
    told = in_process(
        """
from django_ray.errors import GraphRefused
known = refused = 0
for ordinal, name in enumerate(names[:added]):
    try:
        assert ids.get(name) == ordinal
        known += 1
    except GraphRefused:
        refused += 1
assert known >= added - ids.spilled > 0
assert known + refused == added > ids.spilled + 4_096
""",
        tmp_path,
        file=1_000_000,
    )

    assert told == "Node ids cannot be written to a file; they stay in memory.\n"
