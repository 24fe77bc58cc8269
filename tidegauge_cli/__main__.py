"""``python -m tidegauge_cli``."""

from tidegauge_cli import main

main()
