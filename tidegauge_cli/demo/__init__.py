"""The main job: real flights, reported when they land, in windows of when they left."""

from tidegauge_cli.demo.run import run_demo

__all__ = ["run_demo"]
