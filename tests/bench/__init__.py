"""Measurements with a goal. Tests are never timed: the figures come from here (`make bench`)."""
