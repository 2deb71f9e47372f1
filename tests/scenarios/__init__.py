"""Scenario files run by the real runners."""
