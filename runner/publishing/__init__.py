"""What a run publishes: result frames, Parquet, exports, the mirror and restoring from it."""
