"""`python -m ksdp`."""

from ksdp.cli import main

main()
