"""Pure values and rules: no file, socket, clock or environment is touched here."""
