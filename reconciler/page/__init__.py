"""The page at /: what the leader knows, drawn in a browser as it changes. Read-only, without a build step."""
