"""Every statement of storage against the migrated schema, and the plan of the widest."""

import importlib
import pkgutil
import re

import pytest

from django_ray import storage
from django_ray.storage import pool
from django_ray.storage.publish import GROW, WRITE
from tests.storage.helpers import Book

VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "COPY")


def statements():
    found = {}
    for module in pkgutil.iter_modules(storage.__path__, storage.__name__ + "."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, str) and value.lstrip().startswith(VERBS):
                found[f"{module.name.rpartition('.')[2]}.{name}"] = value
    return found


def numbered(query):
    """Return the query as PREPARE takes it: $1, $2 … in order of first use."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", query)))
    for number, name in enumerate(names, 1):
        query = query.replace(f"%({name})s", f"${number}")
    return query, names


def test_the_statements_are_found():
    assert {name.rpartition(".")[2] for name in statements()} >= {
        *("HOLD", "LOCK_RUN", "INSERT_RUN", "RAISE_EPOCH", "STANDING"),
        *("INSERT_PAGES", "REPLACE_CANDIDATE", "PRUNE", "HAS_ROOM", "DISCARD"),
        *(
            "LOCK_WRITER",
            "BODIES",
            "CANDIDATE",
            "WRITE",
            "GROW",
            "WRITE_SUMMARY",
            "COPY",
        ),
    }


@pytest.mark.parametrize("name", sorted(statements()))
def test_a_statement_prepares_against_the_migrated_schema(conn, name):
    query, _ = numbered(statements()[name])
    if query.lstrip().startswith("COPY"):
        with conn.cursor() as cursor, cursor.copy(query) as copying:
            copying.write(b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"\xff\xff")
    else:
        conn.execute(f"PREPARE statement AS {query}", prepare=False)


@pytest.mark.parametrize("name", sorted(statements()))
def test_every_parameter_says_its_type(name):
    bare = re.findall(r"%\(\w+\)s(?!\)?::)", statements()[name])
    assert bare == []


@pytest.fixture(params=["empty", "of small runs"])
def known(request, conn, admin):
    """What the planner knows of the tables when it makes its one plan."""
    if request.param == "of small runs":
        for _ in range(20):
            Book.loaded(conn, 4)
    admin.execute("VACUUM ANALYZE django_ray_node_detail")


@pytest.mark.parametrize("statement", [WRITE, GROW], ids=["write", "grow"])
def test_a_writing_statement_finds_each_row_by_its_key_whatever_the_tables_were(
    conn, known, statement
):
    query, names = numbered(statement)
    conn.execute(f"PREPARE statement AS {query}", prepare=False)
    nulls = ", ".join(["NULL"] * len(names))
    lines = conn.execute(f"EXPLAIN EXECUTE statement ({nulls})", prepare=False)
    plan = "\n".join(line for (line,) in lines)
    assert "Seq Scan on django_ray" not in plan
    assert "Tid Scan on django_ray_node_detail d" in plan
    # By either key, and through the index or a bitmap of it.
    assert re.search(
        r"Index Cond: \(.*run_id = .*\((ordinal|node_key) = i\.|"
        r"Index Cond: \(.*\((ordinal|node_key) = i\..*run_id = ",
        plan,
    ), plan


def test_no_statement_sets_anything_but_the_pools_own(conn):
    said = [
        name
        for name, query in statements().items()
        if re.search(r"\bset_config\b|\bSET LOCAL\b", query)
    ]
    assert said == ["pool.SETTINGS"]
    assert pool.SETTINGS.count("'") == 2 * 2 * 9
