"""What keeps stored progress true and small."""
