"""The pages: who sees them, what they say in every state, and that text stays text."""

import ast
import datetime as dt
import re
import time
import uuid
from pathlib import Path

import msgspec
import pytest
from django.db import connection
from django.template.loader import render_to_string
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

import django_ray
from django_ray.progress.graph import Graph
from django_ray.protocol import summary as codec
from django_ray.protocol.limits import V1
from django_ray.protocol.summary import NodeCounts
from django_ray.protocol.vocabulary import (
    DetailAvailability,
    ExecutionState,
    NodeState,
    ReportingPolicy,
    TruncationReason,
    WorkflowState,
)
from django_ray.readers.portrait import Portrait
from django_ray.readers.stages import Stage, Stages
from django_ray.web import bars, facts, names, notice, pages, run_page, statusline
from tests.app import pictures, published
from tests.app.published import Published

HERE = Path(django_ray.__file__).parent
TEMPLATES = sorted((HERE / "templates").rglob("*.html"))
STATIC = sorted((HERE / "static").rglob("*.*"))
NOW = pictures.NOW


@pytest.fixture
def client(root):
    client = Client()
    client.force_login(root)
    return client


def portrait(reading=None, **changes):
    values = {
        "attempts": 1,
        "stages": None,
        "failures": None,
        "running": (),
        "nodes": (),
        "error": "",
    }
    reading = reading or pictures.make_reading()
    return Portrait(reading=reading, **{**values, **changes})


def said(reading, **changes):
    """Return what a page's notice says, line by line."""
    lines = notice.compose(portrait(reading, **changes)).lines
    return [" ".join(part.text for part in line) for line in lines]


def rendered(found):
    """Return a page's visible words."""
    page = run_page.compose(found)
    html = render_to_string("django_ray/run.html", {"page": page, "keys": pages.KEYS})
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


def a_summary(availability="AVAILABLE", reasons=(), **changes):
    detail = codec.Detail(
        availability=DetailAvailability(availability),
        complete=availability == "AVAILABLE",
        reasons=reasons,
    )
    return pictures.make_summary(detail=detail, **changes)


# Who sees them


@pytest.mark.django_db(transaction=True)
def test_not_yours_and_not_there_are_the_same_page(conn, client):
    run = Published(conn, 3, 2)
    there = reverse("run-page", args=[run.public_id])
    absent = client.get(reverse("run-page", args=[uuid.uuid4()]))
    others = [Client().get(there)]
    stranger = Client()
    stranger.force_login(published.nobody())
    others.append(stranger.get(there))
    others.append(client.get(f"{there}?attempt=9"))
    assert client.get(there).status_code == 200
    for answer in others:
        assert answer.status_code == absent.status_code == 404
        assert answer.content == absent.content
        assert sorted(answer.headers.items()) == sorted(absent.headers.items())
    assert "There is no such run, or it is not yours to see." in absent.text


@pytest.mark.django_db(transaction=True)
def test_the_list_holds_what_its_viewer_may_see(conn, client):
    run = Published(conn, 3, 2)
    address = reverse("list-page")
    assert str(run.public_id) in client.get(address).text
    nobody = Client().get(address).text
    assert str(run.public_id) not in nobody
    assert "No runs yet." in nobody


@pytest.mark.django_db(transaction=True)
def test_a_page_is_refused_as_the_api_refuses(client, settings):
    address = reverse("list-page")
    for query in ("?show=none", "?nothing=1", "?prefix=a&prefix=b"):
        answer = client.get(address + query)
        assert (answer.status_code, answer["Content-Type"][:9]) == (400, "text/html")
    assert client.get(f"{address}?cursor=forged").status_code == 400
    settings.DJANGO_RAY = {"REQUESTS_PER_MINUTE": 1}
    answer = client.get(address)
    assert answer.status_code == 429
    assert int(answer["Retry-After"]) > 0
    assert "Asked too often." in answer.text


# Strictness


@pytest.mark.django_db(transaction=True)
def test_every_page_brings_its_strict_policy(conn, client):
    run = Published(conn, 3, 2)
    for address in (
        reverse("list-page"),
        reverse("run-page", args=[run.public_id]),
        reverse("run-page", args=[uuid.uuid4()]),
    ):
        answer = client.get(address)
        policy = answer["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert answer["Cache-Control"] == "private, no-cache"


def test_a_policy_names_where_static_files_are(settings):
    settings.STATIC_URL = "https://static.example/assets/"
    assert "script-src 'self' https://static.example;" in pages.policy()
    assert "connect-src 'self';" in pages.policy()


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_holds_an_inline_script_or_style(path):
    text = path.read_text()
    assert not re.search(r"\sstyle=|<style|\son[a-z]+=|javascript:", text)
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    assert "|safe" not in text
    assert "autoescape off" not in text


@pytest.mark.parametrize("path", STATIC, ids=lambda path: path.name)
def test_static_files_are_short_and_make_no_markup_of_text(path):
    text = path.read_text()
    assert text.count("\n") <= 400
    for refused in (
        "innerHTML",
        "outerHTML",
        "insertAdjacent",
        "document.write",
        "eval(",
    ):
        assert refused not in text
    assert not re.search(r"https?://(?!www\.w3\.org)", text)


def test_what_a_script_exports_another_one_imports():
    scripts = {path: path.read_text() for path in STATIC if path.suffix == ".js"}
    for path, text in scripts.items():
        others = "".join(other for one, other in scripts.items() if one != path)
        for name in re.findall(r"^export \S+(?: function)? (\w+)", text, re.MULTILINE):
            of_module = rf"\b{path.stem}\.{name}\b"
            assert re.search(rf"import {{[^}}]*\b{name}\b|{of_module}", others), name


SAID_BY_BOTH = (
    *(
        f"web/{n}"
        for n in ("notice", "statusline", "facts", "howfar", "names", "steps")
    ),
    "management/terminal/left",
)
SAID_BY_THE_SERVER_ALONE = {
    " So the run may go on unseen; a collector that restarts catches up by itself and "
    "loses no state.",
    "on queue ",
    "which holds its lease",
    "it may work before it registers a node",
    "soon after the task registers its first node",
    "Claimed by a worker",
    "Task started on Ray",
    "First report",
    ", active first",
    "1 day",
    # Said in the script too, put together in another way.
    "1 stage",
    " kept, newest change first",
    "Only the summary is kept for this run, by its reporting policy (",
    "). There is no graph, timeline or table.",
    "1 host seen",
    " hosts seen",
    " failures kept in detail; ",
    # A comment of a constant.
    "Minutes that an estimate is rounded to.",
}


@pytest.mark.parametrize("name", SAID_BY_BOTH)
def test_the_script_says_what_the_server_says(name):
    script = "".join(p.read_text() for p in STATIC if p.suffix == ".js")
    tree = ast.parse((HERE / f"{name}.py").read_text())
    docs = {ast.get_docstring(node, clean=False) for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)}  # fmt: skip
    said = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    sentences = {
        text for text in said - docs if " " in text.strip() and "\n" not in text
    }
    assert {
        text
        for text in sentences - SAID_BY_THE_SERVER_ALONE
        if text.strip(" .,;:·") not in script
    } == set()


HOSTILE = "<script>alert('x')</script>"


@pytest.mark.django_db(transaction=True)
def test_what_users_write_is_text(conn, client):
    graph = Graph(V1)
    written = [
        graph.register(f"{HOSTILE}{n}", HOSTILE, f'"><img src=x onerror={n}>', [])[1]
        for n in range(3)
    ]
    run = Published(conn, graph=written)
    run.move([0, 1], "FAILED", kind=HOSTILE, text=f"</pre>{HOSTILE}")
    row = run.row
    row.task_path, row.queue_name = f"tasks.{HOSTILE}", HOSTILE
    row.save()
    for address in (reverse("list-page"), reverse("run-page", args=[run.public_id])):
        text = client.get(address).text
        assert "<script>alert" not in text
        assert "<img" not in text
        assert "&lt;script&gt;alert" in text


# What they say


LATER = NOW + dt.timedelta(seconds=40)


@pytest.mark.parametrize(
    ("reading", "first"),
    [
        (
            pictures.make_reading(
                None, state=ExecutionState.QUEUED, started_at=None, enqueued_at=NOW
            ),
            "Queued for 0.0 s. Waits for a worker on queue default.",
        ),
        (
            pictures.make_reading(None, state=ExecutionState.QUEUED, started_at=None),
            "No worker has claimed it for 8 min. Is manage.py ray_worker running for "
            "queue default?",
        ),
        (
            pictures.make_reading(None, state=ExecutionState.CLAIMED),
            "A worker has claimed it. The run has not started.",
        ),
        (
            pictures.make_reading(None, state=ExecutionState.RETRY_WAIT),
            "Waits to be tried again. The next attempt starts later.",
        ),
        (
            pictures.make_reading(None, started_at=NOW),
            "The run has started and has not reported a node yet. The graph, timeline "
            "and table appear here with the first report.",
        ),
        (
            pictures.make_reading(None),
            "No report for 8 min. Look at its worker's log, then at this run's "
            "collector.",
        ),
        (
            pictures.make_reading(None, policy=ReportingPolicy.terminal_only),
            "One summary comes with the end, by policy.",
        ),
        (
            pictures.make_reading(None, policy=ReportingPolicy.disabled),
            "Node reporting is off for this run. Its state and result are in the task.",
        ),
        (
            pictures.make_reading(None, availability=DetailAvailability.CORRUPT),
            "The summary of this run is damaged and not shown.",
        ),
        (
            pictures.make_reading(),
            "1 failed, 1 skipped behind. Counted; none of them is kept with detail.",
        ),
        (
            pictures.make_reading(pictures.make_summary(NodeCounts(running=3))),
            "Nothing failed.",
        ),
        (
            pictures.make_reading(pictures.make_summary(NodeCounts())),
            "The run has not reported a node yet.",
        ),
        (
            pictures.make_reading(
                pictures.make_summary(NodeCounts(running=3)), read_at=LATER
            ),
            "The collector has been silent for 40 s. The figures are from 14:10:46.",
        ),
        (
            pictures.make_reading(cancel_requested_at=NOW - dt.timedelta(seconds=12)),
            "Cancellation was asked for 12 s ago. 20 nodes may still be ending.",
        ),
    ],
)
def test_each_state_that_lasts_has_its_words(reading, first):
    assert said(reading)[0] == first


@pytest.mark.parametrize(
    ("state", "first"),
    [
        ("SUCCEEDED", "Succeeded at 14:10:47."),
        ("FAILED", "Failed at 14:10:47."),
        (
            "CANCELLED",
            "Cancelled on request at 14:10:47. 120 of 197 nodes had succeeded.",
        ),
        ("TIMED_OUT", "Ended by its time limit at 14:10:47."),
        (
            "LOST",
            "Lost: its process or host on Ray was gone; this was noticed at 14:10:47.",
        ),
    ],
)
def test_each_end_has_its_words(state, first):
    summary = pictures.ended(pictures.make_summary(), WorkflowState(state), 60)
    reading = pictures.make_reading(
        summary, state=ExecutionState(state), finished_at=NOW
    )
    lines = said(reading, error="ValueError: no")
    assert lines[:2] == [first, "ValueError: no"]
    words = rendered(portrait(reading))
    assert "Final" in words
    assert "60 %" in words
    assert "120 of 197 nodes succeeded" in words


def test_a_run_that_waits_for_an_operator_says_so_with_its_error():
    summary = pictures.ended(pictures.make_summary(), WorkflowState.FAILED, 60)
    reading = pictures.make_reading(
        summary, state=ExecutionState.RECONCILE, read_at=LATER
    )
    assert said(reading, error="InvocationFailed: OWNER_LOST")[:2] == [
        "What its compiled graph has done is not known. It waits for an operator, and "
        "for manage.py ray_reconcile",
        "InvocationFailed: OWNER_LOST",
    ]
    words = rendered(portrait(reading))
    assert "Needs reconciliation" in words
    assert "Final" in words
    assert "Stale" not in words


@pytest.mark.parametrize(
    ("availability", "line", "panel"),
    [
        ("AVAILABLE", "Complete · 197 of 197 nodes and 451 of 451 edges kept", ""),
        ("TRUNCATED", "Partial · 25 of 197 nodes kept: node_count_limit", "The counts and stages cover all 197 nodes."),
        ("OMITTED_BY_POLICY", "Summary only by policy · OMITTED_BY_POLICY", "Only the summary is kept for this run, by its reporting policy (full)."),
        ("EXPIRED", "Detail expired counts remain · EXPIRED", "The detail expired after the 7 days set for it."),
        ("MISSING", "Detail missing a fault · MISSING", "The detail of this run is missing."),
        ("CORRUPT", "Detail damaged not shown · CORRUPT", "The detail of this run is damaged and not shown."),
        ("DISABLED", "Node reporting is off · DISABLED", "Node reporting was off for this run."),
        ("NOT_REPORTED", "Nothing kept yet · NOT_REPORTED", ""),
    ],
)  # fmt: skip
def test_each_availability_has_its_words(availability, line, panel):
    cut = availability == "TRUNCATED"
    summary = a_summary(
        availability,
        (TruncationReason.node_count_limit,) if cut else (),
        retained_nodes=25 if cut else 197,
    )
    found = rendered(portrait(pictures.make_reading(summary)))
    assert line in found
    assert panel in found
    assert "61 %" in found or "62 %" in found


@pytest.mark.parametrize(
    ("seconds", "word", "text"),
    [
        (0, "Live", "revision 412, 0.8 s ago"),
        (14, "Live", "revision 412, unchanged for 14 s; heard 14 s ago"),
        (20, "Late", "revision 412, 20 s ago; usual at most 5 s"),
        (
            40,
            "Stale",
            "revision 412, 40 s ago; reports usually come every 5 s or sooner",
        ),
    ],
)
def test_the_age_of_the_figures_has_a_word(seconds, word, text):
    reading = pictures.make_reading(read_at=NOW + dt.timedelta(seconds=seconds))
    line = statusline.fresh(reading)
    assert (line.word, line.text) == (word, text)
    words = rendered(portrait(reading))
    assert ("Running, last known" in words) is (word == "Stale")


def test_a_fact_comes_with_its_basis_or_says_why_there_is_none():
    minutes = (0, 0, 10, 10, 20, 30, 20, 40, 25, 3)
    summary = pictures.make_summary(ended_by_minute=minutes)
    live = {fact.key: fact for fact in facts.compose(pictures.make_reading(summary))}
    assert (live["rate"].value, live["rate"].unit) == ("25", "a minute")
    assert live["left"].value == "3 to 10"
    assert live["left"].basis == "from the last 7 min"
    assert live["running"].basis == "4 hosts seen"
    stale = facts.compose(pictures.make_reading(summary, read_at=LATER))
    assert [fact.basis for fact in stale][2:] == [
        "not estimated while stale",
        "as of the last report",
    ]


def test_a_bar_shows_every_state_that_has_a_node_and_fills_its_length():
    counts = NodeCounts(succeeded=999_997, failed=1, skipped=1, running=1)
    bar = bars.draw(counts, 1_000_000, bars.ROW)
    assert [each.state for each in bar.segments] == [
        "succeeded",
        "failed",
        "skipped",
        "running",
    ]
    widths = [float(each.width[:-1]) * 1.5 for each in bar.segments]
    assert min(widths) >= 2.99
    assert widths[1] >= 3.99
    assert sum(widths) + 3 == pytest.approx(150, abs=0.1)
    assert bar.words == "999,997 succeeded, 1 failed, 1 skipped, 1 running"
    assert bars.draw(None, 0, bars.ROW).segments == ()


def test_every_state_is_a_shape_and_a_word_in_the_page():
    summary = pictures.make_summary(pictures.EVERY_STATE)
    page = run_page.compose(portrait(pictures.make_reading(summary)))
    html = render_to_string("django_ray/run.html", {"page": page})
    for state in NodeState:
        assert f'id="s-{state.lower()}"' in html
        assert f'href="#s-{state.lower()}"' in html
        assert f"<span>{state.capitalize()}</span>" in html


def test_stages_that_end_alike_are_told_apart():
    found = names.shorten(["a.b.load", "a.c.load", "a.save", "plain", ""])
    assert [(name.name, name.tag) for name in found] == [
        ("load", "b"),
        ("load", "c"),
        ("save", ""),
        ("plain", ""),
        ("", ""),
    ]


def stages_of(*labels, folded):
    """Return stages by index and label, with nothing in them."""
    none = dict.fromkeys(
        ("first_start_ms", "last_end_ms", "longest_ms", "p50_ms", "p95_ms")
    )
    items = tuple(
        Stage(
            index=index, label=label, kept=0, rank=0, node_counts=NodeCounts(), **none
        )
        for index, label in labels
    )
    return Stages(
        edges=(),
        edges_omitted=0,
        first_failure=None,
        folded=folded,
        items=items,
        run=None,
        running=None,
    )


def test_the_stage_of_all_others_is_known_by_its_index_not_its_label():
    found = names.of(stages_of((0, "other"), (63, "other"), folded=2))
    assert [found[index].name for index in (0, 63)] == ["other", "other (2 callables)"]


@pytest.mark.parametrize(
    ("attempt", "unstarted"), [(0, "The run"), (1, "The next attempt")]
)
def test_what_was_cancelled_while_it_waited_was_not_started(attempt, unstarted):
    reading = pictures.make_reading(
        None,
        state=ExecutionState.CANCELLED,
        attempt_number=attempt,
        run_id=None,
        claimed_at=None,
        started_at=None,
        finished_at=NOW,
    )
    assert said(reading) == [
        "Cancelled on request at 14:10:47.",
        f"{unstarted} was not started.",
    ]


def test_a_run_between_two_attempts_has_no_steps():
    reading = pictures.make_reading(
        None, state=ExecutionState.RETRY_WAIT, claimed_at=None, started_at=None
    )
    assert run_page.compose(portrait(reading)).steps == ()
    queued = pictures.make_reading(
        None, state=ExecutionState.QUEUED, claimed_at=None, started_at=None
    )
    assert len(run_page.compose(portrait(queued)).steps) == 4


# What they read


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("nodes", [0, 1, 312])
def test_a_page_shows_runs_of_any_size(conn, client, nodes):
    run = Published(conn, nodes, max(nodes - 260, 0))
    if nodes:
        run.move(range(nodes // 2 or 1), "SUCCEEDED")
    else:
        run.end()
    answer = client.get(reverse("run-page", args=[run.public_id]))
    assert answer.status_code == 200
    shown = answer.text.count('<code class="node">')
    assert shown == min(nodes, 50)
    if nodes > 1:
        assert "156 of 312" in answer.text
        assert "50 of 312 kept, newest change first" in answer.text
    listed = client.get(reverse("list-page"))
    assert str(run.public_id) in listed.text


@pytest.mark.django_db(transaction=True)
def test_a_page_needs_as_many_statements_for_many_nodes_as_for_few(conn, client):
    counted = set()
    for nodes in (10, 600):
        run = Published(conn, nodes, nodes)
        run.move(range(nodes // 2), "SUCCEEDED")
        run.move([nodes // 2], "FAILED", kind="ValueError", text="no")
        run.move([nodes // 2 + 1], "RUNNING")
        address = reverse("run-page", args=[run.public_id])
        client.get(address)
        with CaptureQueriesContext(
            connection,
        ) as found:
            assert client.get(address).status_code == 200
        counted.add(len(found))
    assert len(counted) == 1
    assert counted.pop() <= 14


@pytest.mark.django_db(transaction=True)
def test_an_earlier_attempt_has_a_page_that_leads_to_the_current_one(conn, client):
    run = Published(conn, 3, 2)
    run.retry()
    address = reverse("run-page", args=[run.public_id])
    earlier = client.get(f"{address}?attempt=1&state=FAILED").text
    assert "data-earlier" in earlier
    assert "Attempt 2 is the current one. Go to it" in earlier
    assert "data-earlier" not in client.get(address).text
    assert client.get(f"{address}?attempt=no").status_code == 400


@pytest.mark.django_db(transaction=True)
def test_damaged_detail_is_named_and_the_counts_stay(conn, client):
    run = Published(conn, 30, 5)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_ray_manifest")
    text = client.get(reverse("run-page", args=[run.public_id])).text
    assert "Detail missing" in text
    assert "0 of 30" in text


@pytest.mark.django_db(transaction=True)
def test_the_list_is_as_old_as_the_database_says(conn, client, monkeypatch):
    Published(conn, 3, 2)
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    text = client.get(reverse("list-page")).text
    then = int(re.search(r'data-now="([0-9]+)"', text)[1])
    assert then / 1_000 == pytest.approx(time.time(), abs=30)


@pytest.mark.django_db(transaction=True)
def test_the_script_is_given_digits_whatever_numbers_read_like(conn, client, settings):
    settings.USE_THOUSAND_SEPARATOR = True
    run = Published(conn, 3, 2)
    row = run.row
    row.attempt_number = 1_000
    row.save()
    for address in (reverse("list-page"), reverse("run-page", args=[run.public_id])):
        text = client.get(address).text
        given = re.findall(r' data-(?:now|attempts?)="([^"]*)"', text)
        assert given
        assert all(re.fullmatch("[0-9]+", value) for value in given)


@pytest.mark.django_db(transaction=True)
def test_the_list_asks_for_what_needs_attention(conn, client):
    well, ill = Published(conn, 3, 2), Published(conn, 3, 2)
    ill.move([0], "FAILED", kind="ValueError", text="no")
    text = client.get(reverse("list-page"), {"show": "attention"}).text
    assert str(ill.public_id) in text
    assert str(well.public_id) not in text
    ended = client.get(reverse("list-page"), {"show": "ended", "prefix": "none"}).text
    assert "No run begins with «none»." in ended


def test_a_page_of_a_summary_whose_graph_grows_says_so():
    detail = codec.Detail(
        availability=DetailAvailability.AVAILABLE, complete=False, reasons=()
    )
    summary = msgspec.structs.replace(
        pictures.make_summary(), detail=detail, retained_nodes=100
    )
    line = statusline.complete(pictures.make_reading(summary))
    assert line.word == "Growing"
    assert line.text.endswith("the rest follows")
