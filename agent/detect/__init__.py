"""Pure part of the agent: sensor readings in, debounced faults out. No clock, no I/O; `now` is an argument."""
