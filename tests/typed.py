"""Commands in this process, as a person types them: a process of their own costs a second."""

from click.testing import Result
from typer.testing import CliRunner

from ksdp.cli import app

__all__ = ["typed"]


def typed(*arguments: object, text: str | None = None, code: int | None = None) -> Result:
    """What a command came to, with this exit code where one is given; what it refuses is raised.

    Parameters
    ----------
    text : on standard input
    """
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], input=text)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert code is None or done.exit_code == code, done.output
    return done
