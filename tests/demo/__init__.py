"""The lab's commands as a user runs them: whole processes, which must leave nothing behind."""
