"""The main job: real flights, reported when they land, in windows of when they left."""
