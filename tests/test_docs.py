"""The pages name what the code has: keys, limits, arguments; and their links lead somewhere."""

import inspect
import json
import re
from pathlib import Path

import pytest

from actors.measures import METRICS
from django_ray import conf, workflow
from django_ray.protocol.limits import LOWERABLE, V1

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def section(page, heading):
    """Return what stands under a heading, up to the next of its level or above."""
    text = (DOCS / page).read_text()
    start = text.index(f"\n{heading}\n") + len(heading) + 2
    level = len(heading) - len(heading.lstrip("#"))
    end = re.compile(rf"^#{{1,{level}}} ", re.MULTILINE).search(text, start)
    return text[start : end.start() if end else len(text)]


def rows(text):
    """Return the cells of a section's table rows whose first cell is a name."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in lines]


def test_the_page_of_settings_names_the_keys_and_their_defaults():
    told = section("reference/settings.md", "## `DJANGO_RAY`").split("###")[0]
    table = {key: default for key, _, default, *_ in rows(told)}

    assert list(table) == list(conf.Settings.__struct_encode_fields__)
    defaults = conf.Settings()
    for key, default in table.items():
        value = getattr(defaults, key.lower())
        shown = {"LIMITS": V1.profile, "REDACT": "[]"}.get(key, str(value))
        assert default.strip('"') == shown


def test_the_page_of_settings_names_the_limits_that_can_be_lowered():
    table = rows(section("reference/settings.md", "### `LIMITS`"))

    assert table == [[name, f"{getattr(V1, name):,}"] for name in LOWERABLE]


@pytest.mark.parametrize(
    ("function", "heading"),
    [
        (workflow.fan_out, "## `fan_out(fn, items, …)`"),
        (workflow.run, "## `run(dag, *inputs, …)`"),
    ],
)
def test_the_page_of_workflows_names_the_arguments(function, heading):
    table = section("reference/workflow.md", heading).split("`Failure` |")[0]
    told = [name.lstrip("*") for name, *_ in rows(table)]

    assert told == list(inspect.signature(function).parameters)


def test_the_page_of_metrics_is_the_table():
    page = "reference/metrics.md"
    told = rows((DOCS / page).read_text().split("## Labels")[0])
    values = [
        (name, [value.strip("` ") for value in cells.split(",")])
        for name, cells in rows(section(page, "## Labels"))
    ]

    assert told == [[each.name, each.kind, each.label, each.help] for each in METRICS]
    assert values == [(each.name, list(each.values)) for each in METRICS if each.values]


def test_every_expression_of_the_dashboard_names_exported_metrics_and_all_are_used():
    board = json.loads((DOCS / "grafana" / "django_ray.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    exported = {
        f"ray_{each.name}{suffix}": each
        for each in METRICS
        for suffix in (("_bucket",) if each.kind == "histogram" else ("",))
    }

    named = [re.findall(r"\bray_\w+", expression) for expression in asked]
    assert all(named)
    assert {name for names in named for name in names} == set(exported)
    for expression, names in zip(asked, named, strict=True):
        by = set(re.findall(r"by \((\w+)\)", expression))
        assert by <= {exported[names[0]].label, "le"}


def test_the_dashboard_s_panels_are_told_apart():
    board = json.loads((DOCS / "grafana" / "django_ray.json").read_text())
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in board["panels"]]
    numbers = [panel["id"] for panel in board["panels"]]
    variables = {each["name"] for each in board["templating"]["list"]}

    assert len(set(places)) == len(set(numbers)) == len(board["panels"])
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(board["panels"])))
    assert used == variables


def anchors(page):
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        other = (page.parent / name).resolve() if name else page
        assert other.exists(), target
        assert not anchor or anchor in anchors(other), target


def test_every_page_is_reached_from_the_index():
    linked = set(re.findall(r"\]\(([^)#\s]+)", (DOCS / "index.md").read_text()))
    pages = {str(page.relative_to(DOCS)) for page in PAGES[1:]}
    decisions = {page for page in pages if page.startswith("decisions/")}

    assert pages - decisions - {"index.md"} <= linked
