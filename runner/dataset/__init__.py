"""Items: where they come from, how files are read, mapped, checked and staged."""
