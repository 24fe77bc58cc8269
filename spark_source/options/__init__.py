"""What a load, a sink and a topic may be told."""
