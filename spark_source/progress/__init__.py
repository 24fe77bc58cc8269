"""What a query reports of itself."""
