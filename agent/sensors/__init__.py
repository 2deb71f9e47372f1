"""Sensors: each file talks to one source (library, tool, file tree) and returns facts without judgement."""
