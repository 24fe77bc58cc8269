"""The third main job: the flights through three Delta tables, each written by a process of its own."""
