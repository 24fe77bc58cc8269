"""Requests read and answers written, whichever call it is."""
