"""`python -m runner` is the `jurybox` command."""

from .cli import main

if __name__ == "__main__":
    main()
