"""The `ksdp` command.

`--json` prints one machine-readable object on standard output; people's text and progress go to standard
error. Exit codes: 0 done and nothing sensitive; 3 sensitive documents; 4 undecided ones left, none sensitive;
2 refused input (nothing was written); 5 controls failed, the audit is void; 1 anything else.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import gc
import importlib
import inspect
import io
import os
import re
import sys
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # workers are processes of one thread; so are we
os.environ.setdefault(
    "PYDANTIC_DISABLE_PLUGINS", "__all__"
)  # to look for them reads about every installed package

import typer
from typer.core import TyperGroup

from ksdp.audit.errors import InputError, InvalidAudit, KsdpError
from ksdp.audit.specs.urls import was_url

_INTERRUPTED = 130
_TOLD = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EFBIG, errno.EMFILE}
_TOLD |= {errno.EIO, errno.ENOENT, errno.ESTALE}
"""Refusals of the system that a person can mend: a full disk, a folder that was renamed."""
EXTRAS = {
    "tomotopy": "advise",
    **dict.fromkeys(("starlette", "uvicorn"), "pages"),
    "openpyxl": "excel",
    "weasyprint": "pdf",
    **dict.fromkeys(("gmpy2", "mpyc"), "parties"),
    **dict.fromkeys(("dp_accounting", "opendp"), "peers"),
    "prometheus_client": "schedules",
}
"""Modules that an audit does without, and the extra that brings them."""
_UsageError: Any = typer.BadParameter.__mro__[2]  # ClickException, wherever Typer keeps it

COMMANDS: dict[str, dict[str, str | None]] = {
    "Begin": {
        "demo": "ksdp.commands.audits:demo",
        "init": "ksdp.commands.audits:init",
        "plan": "ksdp.commands.audits:plan",
    },
    "Audit": {
        "audit": "ksdp.commands.audits:audit",
        "more-runs": "ksdp.commands.audits:more_runs",
        "test": "ksdp.commands.audits:evaluate_statistics",
        "power": "ksdp.commands.audits:power",
        "claim": "ksdp.commands.audits:claim",
        "mechanisms": "ksdp.commands.audits:mechanisms",
        "gain": "ksdp.commands.screening:gain",
        "advise": "ksdp.commands.screening:advise",
    },
    "Look": {
        "list": "ksdp.commands.findings:list_audits",
        "show": "ksdp.commands.findings:show",
        "compare": "ksdp.commands.findings:compare",
        "dossier": "ksdp.commands.findings:dossier",
        "sql": "ksdp.commands.findings:sql",
        "review": "ksdp.commands.reviews:review",
    },
    "Decide": {
        "keys": "ksdp.commands.screening:keys",
        "decide": "ksdp.commands.reviews:decide",
        "clear": "ksdp.commands.screening:clear",
        "verify": "ksdp.commands.screening:verify",
        "log": "ksdp.commands.reviews:log",
    },
    "Schedule": {
        "schedule": "ksdp.commands.schedules:schedule",
        "now": "ksdp.commands.schedules:run_schedule",
        "serve": "ksdp.commands.schedules:serve",
    },
    "Keep a store": {"check": "ksdp.commands.upkeep:check", "prune": "ksdp.commands.upkeep:prune"},
    "Run among parties": {
        "agree": "ksdp.commands.runs:agree",
        "party": "ksdp.commands.runs:party",
        "run": "ksdp.commands.runs:run",
        "budget": "ksdp.commands.runs:budget",
        "pem": None,
    },
}
"""Each command by what a person wants, and where it is, as entry points are named; None: an extra brings it."""
_CORE = {name: where for group in COMMANDS.values() for name, where in group.items() if where}

if TYPE_CHECKING:
    app: typer.Typer


def __getattr__(name: str) -> Any:
    if name == "app":
        return application()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def application(command: str | None = None) -> typer.Typer:
    """All commands, or the one that was asked for alone: importing the others takes longer than `ksdp list`."""
    made = typer.Typer(
        name="ksdp",
        help="Measure, document by document, what a private learning protocol gives away, before it is run.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        cls=_GroupedCommands,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(_options)
    table = _CORE if command in _CORE else _CORE | _commands_of_extras()
    for name in [command] if command in table else table:
        module, _, what = table[name].partition(":")
        loaded = getattr(importlib.import_module(module), what)
        if isinstance(loaded, typer.Typer):
            made.add_typer(loaded)
            own = loaded.registered_commands
        else:
            made.command(name)(loaded)
            own = made.registered_commands[-1:]
        for registered in own:
            if registered.callback is not None:
                registered.callback = _with_any_store(_with_local_paths(registered.callback))
    return made


def _commands_of_extras() -> dict[str, str]:
    """Add the commands of other packages, by the entry points `ksdp.commands`."""
    from importlib.metadata import entry_points

    return {entry.name: entry.value for entry in entry_points(group="ksdp.commands")}


class _GroupedCommands(TyperGroup):
    """Help that lists commands by what a person wants; whatever is in no group comes last."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one section a group."""
        ungrouped = [
            name for name in self.list_commands(ctx) if not any(name in some for some in COMMANDS.values())
        ]
        for title, names in [*COMMANDS.items(), ("Others", tuple(ungrouped))]:
            rows = [(n, _first_sentence(c)) for n in names if (c := self.get_command(ctx, n)) is not None]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _first_sentence(command: Any) -> str:
    return str(command.help or "").strip().split("\n")[0].partition(";")[0].removesuffix(".")


def _with_local_paths(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same command; without this a store at `s3://bucket/store` would be made in a folder called `s3:`."""

    @wraps(command)
    def checked(**given: Any) -> Any:
        for name, value in given.items():
            paths = value if isinstance(value, list | tuple) else (value,)
            # A spec is text where a command takes the id of an audit too.
            if any((isinstance(path, Path) or str(path).endswith(".toml")) and was_url(path) for path in paths):
                raise InputError(
                    f"`{name.replace('_', '-')}` must be a path, and no URL. What may be at URLs is named in a "
                    "spec: the files of `[corpus]`, and the blocks of a store (`cluster.blocks`)."
                )
        return command(**given)

    return checked


def _with_any_store(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same command; where it needs no store it takes `--store` none the less, so that a script may name it."""
    signature = inspect.signature(command)
    if "store" in signature.parameters:
        return command

    @wraps(command)
    def asked(*, store: Path | None, **given: Any) -> Any:
        return command(**given)

    types = get_type_hints(command, include_extras=True)
    types["store"] = Annotated[Path | None, typer.Option("--store", hidden=True)]
    taken = [
        *signature.parameters.values(),
        inspect.Parameter("store", inspect.Parameter.KEYWORD_ONLY, default=None),
    ]
    vars(asked)["__signature__"] = inspect.Signature(
        [parameter.replace(annotation=types[parameter.name]) for parameter in taken]
    )
    asked.__annotations__ = types
    return asked


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"ksdp {version('ksdp')}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Measure, document by document, what a private learning protocol gives away, before it is run."""


def main() -> None:
    """Run the command and turn errors into one line and an exit code."""
    gc.set_threshold(20_000)  # imports make many objects and no garbage; to look for it takes 5 % of `ksdp show`
    sys.stdout, sys.stderr = _Seen.over(sys.stdout), _Seen.over(sys.stderr, styled=True)
    interrupted: list[bool] = []
    atexit.register(_leave_as_interrupted, interrupted)  # the first to register is the last to be called
    try:
        kernels = Path(os.environ.get("NUMBA_CACHE_DIR", os.devnull)).resolve()
        if kernels.is_dir() and any(map(_of_others, (kernels, *kernels.rglob("*")))):
            raise InputError(
                f"NUMBA_CACHE_DIR, {kernels}, holds code that others can write: `chmod -R go-w` it, or remove it."
            )
        code = application(next(iter(sys.argv[1:]), None))(standalone_mode=False)
    except InputError as error:
        typer.secho(_seen(f"refused: {error}"), err=True, fg="red")
        code = 2
    except InvalidAudit as error:
        typer.secho(_seen(f"VOID: {error}"), err=True, fg="red", bold=True)
        code = 5
    except KsdpError as error:
        typer.secho(_seen(f"error: {error}"), err=True, fg="red")
        code = 1
    except MemoryError:
        typer.secho("error: there is not enough memory for this.", err=True, fg="red")
        code = 1
    except OSError as error:
        if error.errno not in _TOLD:
            raise
        where = f"{error.filename}: " if isinstance(error.filename, str) else ""
        typer.secho(_seen(f"error: {where}{error.strerror}."), err=True, fg="red")
        code = 1
    except ModuleNotFoundError as error:
        if (extra := EXTRAS.get((error.name or "").partition(".")[0])) is None:
            raise
        typer.secho(f"refused: this needs {error.name}: pip install 'ksdp[{extra}]'.", err=True, fg="red")
        code = 2
    except typer.Abort:  # at a prompt: Ctrl-C elsewhere is no Abort
        typer.echo("\nstopped: a question was left without an answer; the same command asks again.", err=True)
        sys.exit(_INTERRUPTED)
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except _UsageError as error:
        error.message = _seen(error.message)
        error.show()
        code = error.exit_code
    if code == _INTERRUPTED:  # Typer turns Ctrl-C into this code itself
        interrupted.append(True)
        typer.echo("stopped; the same command goes on, or begins again if nothing is stored.", err=True)
    sys.exit(code if isinstance(code, int) else 0)


_STYLE = re.compile(r"(\x1b\[[0-9;?]*[AKJhlm]|\r)")
"""Codes that style a terminal's text and move its progress: on standard error, where no result is printed."""


def _seen(text: str) -> str:
    from ksdp.audit.reviewing import visible

    return text if text.isprintable() else visible(text, lines=True)


class _Seen(io.TextIOWrapper):
    """A stream that writes letters which nobody sees, as names of files may hold, as their numbers."""

    styled = False

    @classmethod
    def over(cls, stream: Any, *, styled: bool = False) -> Any:
        """The same stream, piped or not: a terminal may stand behind a pipe."""
        if isinstance(stream, cls) or not isinstance(stream, io.TextIOWrapper):
            return stream
        seen = cls(stream.buffer, stream.encoding, stream.errors, line_buffering=stream.line_buffering)
        seen.styled = styled
        return seen

    def close(self) -> None:
        """Close nothing: what is below is somebody else's."""
        with contextlib.suppress(OSError, ValueError):
            self.flush()

    def write(self, text: str, /) -> int:
        """Write it, and return how many letters it had."""
        parts = _STYLE.split(text) if self.styled else [text]
        super().write("".join(part if at % 2 else _seen(part) for at, part in enumerate(parts)))
        return len(text)


def _of_others(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):  # another process compiles there
        status = path.lstat()
        return bool(status.st_mode & 0o022) or status.st_uid not in (0, os.getuid())
    return False


def _leave_as_interrupted(interrupted: list[bool]) -> None:
    """End with the exit code of an interrupt, and not by a signal."""
    if interrupted:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(_INTERRUPTED)
