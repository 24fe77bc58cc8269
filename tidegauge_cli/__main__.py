"""``python -m tidegauge_cli``."""

from tidegauge_cli.main import main

main()
