"""Start a command at a site only if a clearance in force is for exactly its documents and mechanism.

    python gate.py site.toml [COMMAND ...]

`site.toml` is the site's own: `clearance`, `spec`, `data` and `keys`, paths relative to it. Exit code 2: refused.
"""

import os
import sys
import tomllib
from pathlib import Path

import ksdp


def main() -> None:
    """Check, then become the command."""
    site = Path(sys.argv[1]).resolve()
    named = tomllib.loads(site.read_text())
    clearance, spec, data = (site.parent / named[name] for name in ("clearance", "spec", "data"))
    try:
        ids = ksdp.require_clearance(clearance, spec, data, keys=[site.parent / key for key in named["keys"]])
    except ksdp.KsdpError as error:
        print(f"refused: {error}", file=sys.stderr)
        sys.exit(2)
    print(f"cleared: {len(ids)} documents", file=sys.stderr)
    if command := sys.argv[2:]:
        os.execvp(command[0], command)


if __name__ == "__main__":
    main()
