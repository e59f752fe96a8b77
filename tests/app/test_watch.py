import io

import pytest
from rich.console import Console

from django_ray.errors import StorageUnavailable
from django_ray.management.terminal import watch
from django_ray.protocol.vocabulary import ExecutionState
from tests.app import pictures
from tests.app.pictures import make_picture, make_reading

GOING = make_picture()
DONE = make_picture(
    make_reading(
        pictures.ended(pictures.make_summary()), state=ExecutionState.SUCCEEDED
    )
)


class Reads:
    """Gives one picture a read; raises what is an exception."""

    def __init__(self, *pictures):
        self.left = list(pictures)

    def __call__(self):
        found = self.left.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


def follow(*found):
    shown, waits = [], []
    last = watch.follow(Reads(*found), shown.append, lambda: waits.append(1))
    return last, shown, len(waits)


def test_it_shows_and_waits_until_the_execution_has_ended():
    last, shown, waits = follow(GOING, GOING, DONE)
    assert last is DONE
    assert shown == [GOING, GOING, DONE]
    assert waits == 2


def test_what_is_not_there_ends_it_without_a_picture():
    assert follow(None) == (None, [], 0)
    assert follow(GOING, None)[0] is None


def test_while_the_database_is_silent_the_last_picture_stays_marked():
    last, shown, _ = follow(GOING, StorageUnavailable(), StorageUnavailable(), DONE)
    assert [picture.answered for picture in shown] == [True, False, False, True]
    assert last is DONE


def test_a_database_silent_from_the_start_is_an_error():
    with pytest.raises(StorageUnavailable):
        follow(StorageUnavailable())


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("SUCCEEDED", 0),
        ("FAILED", 1),
        ("TIMED_OUT", 1),
        ("LOST", 1),
        ("CANCELLED", 2),
        ("QUEUED", 3),
        ("CLAIMED", 3),
        ("RUNNING", 3),
        ("RETRY_WAIT", 3),
        ("RECONCILE", 3),
    ],
)
def test_the_exit_status_is_the_outcome(state, status):
    reading = make_reading(state=ExecutionState(state))
    assert watch.exit_status(make_picture(reading)) == status


def terminal(**options):
    return Console(
        file=io.StringIO(),
        force_terminal=True,
        width=100,
        height=30,
        legacy_windows=False,
        **options,
    )


def watched(*found, **options):
    console = terminal(**options)
    last = watch.live(watch.Screen(console, True), Reads(*found), lambda: None)
    return last, console.file.getvalue()


def test_a_terminal_is_redrawn_in_place_and_keeps_the_last_frame():
    last, written = watched(GOING, DONE, color_system="standard")
    assert last is DONE
    # rich draws the last frame once more, in place, when it lets go of it.
    assert written.count("rnaseq") == 3
    assert "\x1b[1A" in written
    assert written.rindex("SUCCEEDED") > written.rindex("RUNNING")
    assert not written.endswith("\x1b[2K")


def test_every_redraw_is_one_reading():
    _, written = watched(GOING, GOING, GOING, DONE)
    assert written.count("attempt 1") == 4 + 1


def test_without_colour_there_is_none():
    _, written = watched(DONE, no_color=True, color_system="standard")
    assert "\x1b[32m" not in written
    assert "\x1b[1;32m" not in written


def test_plain_lines_are_written_as_they_become_known():
    written = []
    last = watch.lines(
        written.append, Reads(GOING, GOING, DONE), lambda: None, unicode=True
    )
    assert last is DONE
    assert [line.split()[2] for line in written] == [
        "FAILED-NODE",
        "RUNNING",
        "SUCCEEDED",
    ]
