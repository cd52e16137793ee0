"""`python -m forecaster`: the commands, for processes that start one another."""

from forecaster.cli.app import main

main()
