"""Run the commands as `python -m forecaster`, for processes that start each other."""

from forecaster.cli.app import main

main()
