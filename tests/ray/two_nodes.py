"""A Ray of two machines, as far as Ray can tell: run as a program by `test_internals`.

Prints, as JSON, what is said of values that lie on the other machine.
"""

import json
from tempfile import TemporaryDirectory

import ray
from ray.cluster_utils import Cluster

from actors import internals


def give(size):
    return b"x" * size


def fail(size):
    raise ValueError("x" * size)


SIZES = (300_000, 3_000_000)


def main(folder):
    head = {"num_cpus": 0, "include_dashboard": False, "temp_dir": folder}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        ray.init(cluster.address, logging_level="ERROR", log_to_driver=False)
        cluster.add_node(num_cpus=1)
        refs = [ray.remote(give).remote(size) for size in SIZES]
        # Ray keeps an error's text about three times.
        refs.append(ray.remote(max_retries=0)(fail).remote(SIZES[0] // 3))
        ray.wait(refs, num_returns=len(refs), fetch_local=False)
        print(json.dumps([internals.is_failure(ref) for ref in refs]))
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    # A socket's path is at most 107 bytes, and Ray's are long.
    with TemporaryDirectory(prefix="dr-", dir="/tmp") as folder:
        main(folder)
