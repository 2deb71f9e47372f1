"""The tests. Names say the behaviour; folders follow the packages, ``cluster`` holds the real control plane."""
