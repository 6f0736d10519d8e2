"""Result frames, Parquet, exports, the mirror and restoring from it."""
