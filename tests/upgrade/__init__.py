"""Old data, this code: what an earlier version has written is read, and what a later one adds is passed over."""
