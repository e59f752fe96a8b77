"""The package's read services: every question that may be asked about runs.

Each asks the project's policy about the owning execution first, answers from one consistent
snapshot, and returns None where nothing is there or nothing is the viewer's to see. The
forms whose names begin with `a` are the same, awaited: they run in a thread, as all of
Django's own database work does.
"""

from asgiref.sync import sync_to_async

from django_ray.readers.attempts import attempts
from django_ray.readers.changes import changes
from django_ray.readers.events import events
from django_ray.readers.failures import failures
from django_ray.readers.graph import topology_edges, topology_nodes
from django_ray.readers.nodes import node, nodes
from django_ray.readers.public import summary
from django_ray.readers.runs import runs
from django_ray.readers.stages import stages

__all__ = [
    "aattempts",
    "achanges",
    "aevents",
    "afailures",
    "anode",
    "anodes",
    "aruns",
    "astages",
    "asummary",
    "atopology_edges",
    "atopology_nodes",
    "attempts",
    "changes",
    "events",
    "failures",
    "node",
    "nodes",
    "runs",
    "stages",
    "summary",
    "topology_edges",
    "topology_nodes",
]

aattempts = sync_to_async(attempts)
achanges = sync_to_async(changes)
aevents = sync_to_async(events)
afailures = sync_to_async(failures)
anode = sync_to_async(node)
anodes = sync_to_async(nodes)
aruns = sync_to_async(runs)
astages = sync_to_async(stages)
asummary = sync_to_async(summary)
atopology_edges = sync_to_async(topology_edges)
atopology_nodes = sync_to_async(topology_nodes)
