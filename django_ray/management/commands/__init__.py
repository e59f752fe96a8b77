"""Each command parses arguments, calls one function, prints."""
