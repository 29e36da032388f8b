"""The papers' tables and figures, measured again: `ksdp reproduce`."""
