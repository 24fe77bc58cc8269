"""What a query tells of itself."""
