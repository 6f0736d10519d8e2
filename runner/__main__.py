"""`python -m runner` is the `jurybox` command."""

from runner.cli import main

if __name__ == "__main__":
    main()
