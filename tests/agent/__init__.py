"""The agent: its adapters against real children, real Redis and simulated hosts, and the daemon as a whole."""
