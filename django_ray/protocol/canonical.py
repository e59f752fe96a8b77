"""Canonical JSON bytes, and their digest.

Keys sorted, no white space, UTF-8. Structs are encoded in declared field order, so every
stored struct declares its fields sorted by their encoded names. A NaN or an infinity must
be refused before: the encoder would write null.
"""

import hashlib

import msgspec

_encoder = msgspec.json.Encoder(order="deterministic")


def encode(value: object) -> bytes:
    """Encode plain data or a stored struct into its one canonical form."""
    return _encoder.encode(value)


def digest(data: bytes) -> bytes:
    """Return the SHA-256 of `data`: 32 bytes."""
    return hashlib.sha256(data).digest()


def node_key(node_id: str) -> bytes:
    """Return the stable 32-byte key of a node id. Architecture 5.5."""
    return hashlib.sha256(node_id.encode()).digest()
