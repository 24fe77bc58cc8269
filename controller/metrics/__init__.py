"""What operators are shown: metrics, health."""
