"""What the offset log of a query says."""
