"""The options of a load, a sink and a topic."""
