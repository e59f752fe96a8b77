"""Several machines on this one: a Ray cluster whose nodes can be killed and replaced.

A head without CPUs, which stays, and nodes that carry the work. All have the same
credentials, and what the app needs in its processes.
"""

import os
import secrets
import tempfile
import threading
from typing import TYPE_CHECKING

import psutil
import ray

from actors import internals, remote
from actors.local import node_environment

if TYPE_CHECKING:
    from ray._private.node import Node


class Machines:
    """The cluster, which this process has joined."""

    def __init__(self, url: str, *, nodes: int, cpus: int) -> None:
        from ray.cluster_utils import Cluster

        settings = os.environ["DJANGO_SETTINGS_MODULE"]
        os.environ.update(
            node_environment(os.environ, database_url=url, settings_module=settings),
            RAY_AUTH_MODE="token",
            RAY_AUTH_TOKEN=secrets.token_hex(32),
        )
        internals.reread_credentials()
        # A socket's path is at most 107 bytes, and Ray's are long.
        self._folder = tempfile.TemporaryDirectory(
            prefix="drn-", dir="/tmp", ignore_cleanup_errors=True
        )
        head = {
            "num_cpus": 0,
            "include_dashboard": False,
            "temp_dir": self._folder.name,
        }
        self._cpus = cpus
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self.nodes = [self._add() for _ in range(nodes)]
        self.address = str(self._cluster.address)
        remote.connect(self.address, settings_module=settings, log_to_driver=False)

    def join(self) -> None:
        """Add a node in the place of one that was killed."""
        self.nodes.append(self._add())

    def kill(self, node: "Node") -> None:
        """End a node's processes all at once, as the loss of its machine does."""
        raylet = _raylet(node)
        doomed = [raylet, *raylet.children(recursive=True)]
        for process in doomed:
            process.kill()
        self.nodes.remove(node)
        # It waits until the cluster has noticed.
        threading.Thread(
            target=self._cluster.remove_node, args=(node, False), daemon=True
        ).start()

    def close(self) -> None:
        """End what is detached, leave, and stop every node."""
        if ray.is_initialized():
            for name in remote.list_detached():
                remote.kill(name)
            remote.disconnect()
        self._cluster.shutdown()  # type: ignore[no-untyped-call]
        self._folder.cleanup()

    def _add(self) -> "Node":
        joined: Node = self._cluster.add_node(num_cpus=self._cpus)
        return joined


def processes(node: "Node", title: str) -> list[psutil.Process]:
    """Return the processes of a node whose titles begin so."""
    return [child for child in _children(node) if _title(child).startswith(title)]


def _raylet(node: "Node") -> psutil.Process:
    (info,) = node.all_processes["raylet"]
    return psutil.Process(info.process.pid)


def _children(node: "Node") -> list[psutil.Process]:
    try:
        return list(_raylet(node).children())
    except psutil.NoSuchProcess:
        return []


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""
