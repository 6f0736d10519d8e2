"""The run's directory and SQLite file, and its single writer."""
