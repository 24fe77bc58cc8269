"""A day of real processes that are killed at random: `make soak-day`."""
