"""`python -m forecaster`: the commands, for processes that start one another."""

from forecaster.cli import main

main()
