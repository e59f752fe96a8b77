"""The tables, each declared once."""
