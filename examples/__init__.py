"""What a team would build with the Spark source; each file runs against ``tidegauge serve``."""
