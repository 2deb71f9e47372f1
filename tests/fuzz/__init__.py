"""Damaged input of every kind that the daemons read: the documented error or a right value, and nothing else."""
