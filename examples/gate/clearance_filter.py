"""An NVFlare filter of a site: no result leaves it without a clearance in force."""

import subprocess

from nvflare.apis.filter import Filter
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable


class RequireClearance(Filter):
    """Runs `gate.py` before each result; `python` is that of ksdp's environment."""

    def __init__(self, python: str, gate: str, site: str) -> None:
        super().__init__()
        self.command = [python, gate, site]

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """Return the result, or raise."""
        done = subprocess.run(self.command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        return shareable
