"""What a reader is told, and how it is bounded."""
