"""`python -m runner.simulate OPTIONS`: an endpoint that ends with its stdin; the options are one JSON argument."""

import sys

from runner.errors import InputError

from .options import Simulation
from .server import serve

if __name__ == "__main__":
    try:
        serve(Simulation.model_validate_json(sys.argv[1]), until_stdin_ends=True)
    except InputError as error:
        sys.exit(error.message)
