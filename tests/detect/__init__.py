"""Detection: readings in, faults out."""
