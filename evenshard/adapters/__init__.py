"""One outside system per module; each translates its errors and decides nothing."""
