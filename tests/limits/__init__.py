"""Every row of the limit tables: contract 2."""
