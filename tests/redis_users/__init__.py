"""Users of Redis: each does its part on a real server, and is refused everything else."""
