"""What a person runs: the flows, their parameters, and the command line."""

from flows.config import prepare_environment

prepare_environment()  # Prefect reads its settings when it is first imported, which is after this line
