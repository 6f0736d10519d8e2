"""`python -m runner` is the `jurybox` command."""

from runner.cli import main as main

if __name__ == "__main__":
    main()
