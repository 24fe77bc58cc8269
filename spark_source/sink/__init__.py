"""Writing what a query puts out to a stream."""
