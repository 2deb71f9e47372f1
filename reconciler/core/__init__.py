"""Pure core: a snapshot and `now` in, actions out. Nothing here reads a clock, opens a socket or waits."""
