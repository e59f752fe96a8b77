import pytest

from django_ray.progress.pace import Pace, Share
from django_ray.protocol.frames import ProducerKind

COORDINATOR, WORKER, OWNER = (
    ProducerKind.coordinator,
    ProducerKind.worker,
    ProducerKind.owner,
)


@pytest.mark.parametrize("producers", [1, 100, 4_096])
@pytest.mark.parametrize("kind", [COORDINATOR, OWNER])
def test_the_coordinator_and_an_owner_keep_their_pace(kind, producers):
    assert Pace().interval_ms(kind, producers) == 50


@pytest.mark.parametrize(
    ("producers", "interval"),
    [(1, 500), (90, 500), (91, 506), (180, 1_000), (1_800, 10_000), (4_096, 22_756)],
)
def test_workers_share_what_is_left(producers, interval):
    assert Pace().interval_ms(WORKER, producers) == interval


@pytest.mark.parametrize("producers", [5_400, 5_401, 1_000_000])
def test_no_interval_is_longer_than_the_longest(producers):
    assert Pace().interval_ms(WORKER, producers) == 30_000


@pytest.mark.parametrize("producers", [1, 10, 91, 500, 1_000, 4_096])
def test_the_inbound_rate_stays_within_its_target(producers):
    pace = Pace()
    workers = producers * 1_000 / pace.interval_ms(WORKER, producers)
    coordinator = 1_000 / pace.interval_ms(COORDINATOR, producers)
    assert workers + coordinator <= pace.frames_per_second + 1e-9


def test_a_target_below_the_coordinator_s_own_pace_leaves_workers_something():
    pace = Pace(frames_per_second=10)
    assert pace.interval_ms(WORKER, 3) == 3_000


def test_the_first_publication_need_not_wait():
    assert Share(0.1).due_ms(1) == 0


def test_a_publication_rests_nine_times_its_duration():
    share = Share(0.1)
    share.finished(10_000, 400)
    assert share.due_ms(25_000) == 13_600


@pytest.mark.parametrize(
    ("duration", "due"), [(0, 200), (22, 200), (23, 207), (50, 450)]
)
def test_publications_are_at_least_200_ms_apart(duration, due):
    share = Share(0.1)
    share.finished(10_000, duration)
    assert share.due_ms(10) == 10_000 + due


@pytest.mark.parametrize(("changed", "due"), [(4_999, 10_600), (5_000, 13_600)])
def test_a_small_one_commits_a_second_behind_a_large_one(changed, due):
    share = Share(0.1)
    share.finished(10_000, 400)
    assert share.due_ms(changed) == due


@pytest.mark.parametrize("duration", [20, 110, 300, 500])
def test_small_ones_commit_once_a_second_however_long_they_take(duration):
    share = Share(0.1)
    share.finished(10_000, duration)
    assert share.due_ms(4_999) + duration <= 11_000


@pytest.mark.parametrize(("duration", "due"), [(501, 10_501), (900, 10_900)])
def test_small_ones_past_half_a_second_rest_as_long_as_they_took(duration, due):
    share = Share(0.1)
    share.finished(10_000, duration)
    assert share.due_ms(1) == due


def test_another_share_gives_another_rest():
    share = Share(0.5)
    share.finished(10_000, 400)
    assert share.due_ms(25_000) == 10_400


@pytest.mark.parametrize("duration", [20, 110, 112, 400, 3_000])
@pytest.mark.parametrize("rows", [5_000, 25_000])
@pytest.mark.parametrize("fraction", [0.05, 0.1, 0.5])
def test_over_time_large_publications_take_no_more_than_their_share(
    duration, rows, fraction
):
    share = Share(fraction)
    now = busy = 0
    for _ in range(200):
        now = max(now, share.due_ms(rows)) + duration
        busy += duration
        share.finished(now, duration)
    assert busy <= fraction * now + 2 * duration


@pytest.mark.parametrize("duration", [1, 20, 50, 99])
def test_over_time_small_publications_take_a_tenth_when_the_machine_is_free(duration):
    share = Share(0.1)
    now = busy = 0
    for _ in range(200):
        now = max(now, share.due_ms(10)) + duration
        busy += duration
        share.finished(now, duration)
    assert busy <= 0.1 * now + 2 * duration
