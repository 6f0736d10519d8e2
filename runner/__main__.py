"""`python -m runner` is the `jurybox` command."""

from runner.cli.app import main

if __name__ == "__main__":
    main()
