"""Every JSON endpoint, in one table: the URLs, the views and the OpenAPI follow from it."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from django_ray.readers import services
from django_ray.readers.access import Viewer
from django_ray.readers.attempts import Attempts, AttemptsQuery
from django_ray.readers.changes import Changes, ChangesQuery
from django_ray.readers.details import NodeRow
from django_ray.readers.events import Events
from django_ray.readers.failures import Failures
from django_ray.readers.graph import Edge, GraphQuery, Node
from django_ray.readers.nodes import FoundNode, NodeQuery, NodesQuery
from django_ray.readers.page import Page
from django_ray.readers.public import Body, LegacyBody, SummaryQuery
from django_ray.readers.run import Query
from django_ray.readers.runs import Runs, RunsQuery
from django_ray.readers.stages import Stages

RUN = "runs/<uuid:public_id>/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint[Q: msgspec.Struct]:
    """A service under its route: what may be asked, and what is answered.

    `is_detail` answers may also be `Unavailable`.
    """

    name: str
    route: str
    query: type[Q]
    answers: tuple[object, ...]
    read: Callable[[uuid.UUID, Viewer, Q], msgspec.Struct | None]
    title: str
    is_detail: bool = True


def _runs(_: uuid.UUID, viewer: Viewer, query: RunsQuery) -> Runs:
    return services.runs(viewer, query)


ENDPOINTS: tuple[Endpoint[Any], ...] = (
    Endpoint(
        name="runs",
        route="runs/",
        query=RunsQuery,
        answers=(Runs,),
        read=_runs,
        title="The executions the viewer may see, newest first",
        is_detail=False,
    ),
    Endpoint(
        name="summary",
        route=f"{RUN}summary",
        query=SummaryQuery,
        answers=(Body, LegacyBody),
        read=services.summary,
        title="The summary of the current run, or of an attempt",
        is_detail=False,
    ),
    Endpoint(
        name="attempts",
        route=f"{RUN}attempts",
        query=AttemptsQuery,
        answers=(Attempts,),
        read=services.attempts,
        title="The attempts, newest first",
        is_detail=False,
    ),
    Endpoint(
        name="changes",
        route=f"{RUN}changes",
        query=ChangesQuery,
        answers=(Changes,),
        read=services.changes,
        title="Nodes changed since a revision",
    ),
    Endpoint(
        name="nodes",
        route=f"{RUN}nodes",
        query=NodesQuery,
        answers=(Page[NodeRow],),
        read=services.nodes,
        title="Latest state of the retained nodes",
    ),
    Endpoint(
        name="node",
        route=f"{RUN}node",
        query=NodeQuery,
        answers=(FoundNode,),
        read=services.node,
        title="One node by its id",
    ),
    Endpoint(
        name="topology-nodes",
        route=f"{RUN}topology/nodes",
        query=GraphQuery,
        answers=(Page[Node],),
        read=services.topology_nodes,
        title="The retained nodes as registered",
    ),
    Endpoint(
        name="topology-edges",
        route=f"{RUN}topology/edges",
        query=GraphQuery,
        answers=(Page[Edge],),
        read=services.topology_edges,
        title="The retained edges",
    ),
    Endpoint(
        name="stages",
        route=f"{RUN}stages",
        query=Query,
        answers=(Stages,),
        read=services.stages,
        title="The run by stages",
    ),
    Endpoint(
        name="events",
        route=f"{RUN}events",
        query=Query,
        answers=(Events,),
        read=services.events,
        title="The recent events, oldest first",
    ),
    Endpoint(
        name="failures",
        route=f"{RUN}failures",
        query=Query,
        answers=(Failures,),
        read=services.failures,
        title="Failed nodes by cause",
    ),
)
