"""The commands in groups, each with its whole first sentence."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

GROUPS = {
    "Begin": ("demo", "init", "plan", "columns"),
    "Audit": ("audit", "test", "screen", "claim", "mechanisms", "gain", "advise"),
    "Look": ("list", "show", "report", "replay", "export", "tables", "sql", "review", "reproduce"),
    "Decide": ("keys", "decide", "more", "clear", "verify", "log", "approve"),
    "Schedule": ("schedule", "schedules", "pause", "resume", "now", "unschedule", "serve"),
    "Run among parties": ("party", "run", "budget", "pem"),
}


class GroupedCommands(TyperGroup):
    """Help that lists commands by what a person wants; whatever is in no group comes last."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one section a group."""
        left = [name for name in self.list_commands(ctx) if not any(name in some for some in GROUPS.values())]
        for title, names in [*GROUPS.items(), ("Others", tuple(left))]:
            rows = [(n, _sentence(c)) for n in names if (c := self.get_command(ctx, n)) is not None]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _sentence(command: Any) -> str:
    return str(command.help or "").strip().split("\n")[0].partition(";")[0].removesuffix(".")
