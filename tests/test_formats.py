"""The formats: recorded bytes decode and encode to themselves, and the page tells of them.

The recorded frames, given to the product, give the recorded rows: `RECORD=1` writes those
anew, and the difference is then read in review.
"""

import re
from pathlib import Path

import msgspec
import pytest

from django_ray.progress import bequest, pages, series, stages
from django_ray.protocol import canonical, frames, plan, records, summary
from django_ray.protocol.frames import MAXIMUM_MILLISECONDS
from tests.progress.making import Run, settings
from tests.recording import FOLDER, replay

PAGE = (Path(__file__).parents[1] / "docs" / "reference" / "formats.md").read_text()


def page_of(kind):
    return lambda data: pages.decode(data, "identity", canonical.digest(data), kind)


def plain_manifest(data):
    """Check a recorded manifest's digest by its own digests."""
    stored = msgspec.json.decode(data)
    found = pages.manifest_digest(
        stored["node_count"],
        stored["edge_count"],
        [bytes.fromhex(digest) for digest in stored["digests"]],
    )
    return {**stored, "digest": found.hex()}


CODECS = {
    "acknowledgement.msgpack": (frames.decode_acknowledgement, frames.encode),
    "coordinator_frame.msgpack": (frames.decode, frames.encode),
    "worker_frame.msgpack": (frames.decode, frames.encode),
    "page_nodes.json": (page_of("nodes"), canonical.encode),
    "page_edges.json": (page_of("edges"), canonical.encode),
    "manifest.json": (plain_manifest, canonical.encode),
    "detail.json": (records.decode_detail, records.encode),
    "detail_fresh.json": (records.decode_detail, records.encode),
    "bequest.json": (bequest.decode, bequest.encode),
    "events.json": (records.decode_events, canonical.encode),
    "stages.json": (stages.decode, canonical.encode),
    "summary.json": (summary.decode, summary.encode),
    "summary_derived.json": (summary.decode, summary.encode),
    **{
        f"plan_{policy}.json": (
            msgspec.json.Decoder(plan.Plan).decode,
            canonical.encode,
        )
        for policy in ("dynamic", "compiled_graph", "automatic")
    },
    "written_summary.json": (summary.decode, summary.encode),
    "written_stages.json": (stages.decode, canonical.encode),
    "written_events.json": (records.decode_events, canonical.encode),
    "written_page_nodes.json": (page_of("nodes"), canonical.encode),
    "written_page_edges.json": (page_of("edges"), canonical.encode),
    "written_manifest.json": (plain_manifest, canonical.encode),
    "written_detail_0.json": (records.decode_detail, records.encode),
    "written_detail_1.json": (records.decode_detail, records.encode),
}


@pytest.mark.parametrize("name", CODECS)
def test_recorded_bytes_decode_and_encode_to_themselves(name):
    decode, encode = CODECS[name]
    recorded = (FOLDER / name).read_bytes()

    assert encode(decode(recorded)) == recorded


def test_every_recorded_example_is_replayed():
    elsewhere = {path.name for path in FOLDER.glob("l*.json")}

    legacy = {
        f"legacy_{schema}{body}.json" for schema in (1, 2) for body in ("", "_body")
    }

    assert elsewhere <= {*legacy, "lifecycle.json"}
    assert {path.name for path in FOLDER.iterdir()} - elsewhere == set(CODECS)


def test_the_recorded_frames_hold_every_record():
    told = [
        record
        for name in ("coordinator_frame.msgpack", "worker_frame.msgpack")
        for record in frames.decode((FOLDER / name).read_bytes()).records
    ]

    assert {type(record) for record in told} == set(frames.Record.__args__)


def test_the_recorded_examples_hold_every_key():
    for struct, names in (
        (summary.Summary, ["summary.json", "summary_derived.json"]),
        (records.Detail, ["detail.json"]),
        (records.EventItem, ["events.json"]),
    ):
        told = set()
        for name in names:
            parsed = msgspec.json.decode((FOLDER / name).read_bytes())
            for each in parsed if isinstance(parsed, list) else [parsed]:
                told |= {key for key, value in each.items() if value is not None}
        untold = {"invocation"} if struct is records.Detail else set()
        assert set(struct.__struct_encode_fields__) - told == untold


def test_the_recorded_frames_give_the_recorded_rows():
    run = Run(policy=settings().policy)
    for name in ("coordinator_frame.msgpack", "worker_frame.msgpack"):
        run.apply(*frames.decode((FOLDER / name).read_bytes()).records)
    run.publish()

    store = run.store
    manifest = store.manifest()
    replay("written_summary.json", store.summary)
    replay("written_stages.json", store.stages)
    replay("written_events.json", store.events)
    replay(
        "written_manifest.json",
        canonical.encode(
            {
                "digest": manifest.digest.hex(),
                "digests": [digest.hex() for digest in manifest.digests],
                "edge_count": manifest.edge_count,
                "node_count": manifest.node_count,
            }
        ),
    )
    for digest in manifest.digests:
        page = store.pages[digest]
        replay(f"written_page_{page.kind}.json", pages.unpack(page.body, page.encoding))
    for ordinal, row in store.rows.items():
        replay(f"written_detail_{ordinal}.json", row.record)
    assert (len(store.rows), len(store.pages)) == (2, 2)


STRUCTS = {
    "frame": frames.Frame,
    "acknowledgement": frames.Acknowledgement,
    **{kind.__struct_config__.tag: kind for kind in frames.Record.__args__},
    "node item": records.NodeItem,
    "edge item": records.EdgeItem,
    "detail": records.Detail,
    "fault": records.Fault,
    "event item": records.EventItem,
    "bequest": bequest.Bequest,
    "stage row": stages.StageRow,
    "stage": stages.Stage,
    "first failure": stages.FirstFailure,
    "running": series.Running,
    "summary": summary.Summary,
    "plan": plan.Plan,
}


def tables():
    """Return the first column of each table of the page by its heading."""
    found = {}
    for section in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]:
        heading, _, rest = section.partition("\n")
        found[heading] = tuple(re.findall(r"^\| `(\w+)` \|", rest, re.MULTILINE))
    return found


def test_the_page_tells_every_field_in_its_order():
    assert tables() == {
        name: struct.__struct_encode_fields__ for name, struct in STRUCTS.items()
    }


@pytest.mark.parametrize(
    "name",
    [
        n
        for n in CODECS
        if n.endswith(".json") and not n.startswith(("written", "detail_"))
    ],
)
def test_the_page_shows_the_recorded_example(name):
    assert f"\n{(FOLDER / name).read_text()}\n" in PAGE
    assert f"`{name}`" in PAGE


def test_the_last_time_is_in_the_year_the_page_says():
    assert MAXIMUM_MILLISECONDS // 86_400_000 // 365.2425 + 1970 == 9999
    assert "up to the year 9999" in PAGE
