"""The process: uvicorn, signals, sockets, and HTTP below the framework."""
