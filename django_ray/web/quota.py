"""How often one viewer may ask: counted by the minute in Django's default cache.

The limit is REQUESTS_PER_MINUTE. A cache that each process keeps for itself counts for each
process alone; one that is shared counts for the service. An evicted count begins anew: this
protects against a page that asks too often, not against an attack. While the cache does
not answer nothing is counted, and everybody is answered.
"""

import logging

from django.core.cache import cache
from django.utils.crypto import salted_hmac

from django_ray import conf

MINUTE = 60

logger = logging.getLogger(__name__)


def wait(asker: str, now: int) -> int | None:
    """Count one request of `asker` at a second; return how long to wait if one too many."""
    # The asker's name is no part of the key: caches are read by more people than databases.
    name = salted_hmac("django_ray.web.quota", asker, algorithm="sha256").hexdigest()
    key = f"django_ray:asked:{name}:{now // MINUTE}"
    try:
        cache.add(key, 0, timeout=2 * MINUTE)
        asked = cache.incr(key)
    except ValueError:
        return None
    except Exception as exc:
        # Whatever the project's cache is made of may raise errors of its own.
        logger.warning("Requests are not counted: %s", type(exc).__name__)
        return None
    if asked <= conf.current().requests_per_minute:
        return None
    return MINUTE - now % MINUTE
