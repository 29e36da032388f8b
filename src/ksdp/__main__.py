"""`python -m ksdp`."""

import os
import sys

# Python looks first in the folder it was called in. A stranger's folder, with a protocol file that is only to be
# checked, may hold a module of any name; the `ksdp` command does not look there either.
if not sys.flags.safe_path and sys.path and sys.path[0] in ("", os.getcwd()):  # noqa: PTH109 - before any import
    del sys.path[0]

from ksdp.cli import main

if __name__ == "__main__":
    main()
