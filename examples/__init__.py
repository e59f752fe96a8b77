"""Projects that show the product at work."""
