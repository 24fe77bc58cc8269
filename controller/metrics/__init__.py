"""What operators are shown: metrics, health, traces."""
