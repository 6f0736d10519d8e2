"""The commands of `jurybox`, a module per group; `runner.cli` puts them together."""
