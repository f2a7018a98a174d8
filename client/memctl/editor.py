"""`memctl search --open N`: opens a result in the user's editor, at its line."""

import os
import signal
import subprocess

from memctl.output import say
from memoryd_client.errors import DeniedError, MemorydError, NotFoundError
from memoryd_client.schema.search import SearchResult

_SYNTAXES = (
    (
        "emacs emacsclient ex gvim joe kak mcedit mg micro mvim nano nvim pico vi view vim",
        ("+{line}", "{path}"),
    ),
    ("helix hx lapce subl sublime_text zed zeditor", ("{path}:{line}",)),
    ("code code-insiders code-oss codium cursor vscodium windsurf", ("--goto", "{path}:{line}")),
    (
        "clion goland idea kate kwrite mate phpstorm pycharm rider rubymine rustrover webstorm",
        ("--line", "{line}", "{path}"),
    ),
)
"""Names of editors, and the words with which they open a file at a line."""


def open_hit(result: SearchResult, number: int, *, socket_path: str) -> None:
    """Open result `number` (from 1) of the daemon at a socket and wait for the editor to end.

    Raises `NotFoundError` if there is no such result or file, `MemorydError` if there is no editor
    or it fails, and `DeniedError` for root if another user's daemon names the file.
    """
    if os.geteuid() == 0 and (owner := os.stat(socket_path).st_uid) != 0:
        raise DeniedError(
            f"root opens no file that the memoryd of another user (uid {owner}) names",
            hint="run the search as that user",
        )
    count = len(result.results)
    if number > count:
        raise NotFoundError(
            f"there is no result {number}: the search found {count or 'nothing'}",
            hint="use `--max-results` for more" if count else "",
        )
    hit = result.results[number - 1]
    path = os.path.abspath(os.path.join(result.workspace_dir, hit.path))
    _check_note(path, result.workspace_dir)
    editor = chosen_editor()
    words = command(editor, path, hit.snippet_start_line)
    if words is None:
        say(f"note: can't pass the line to {editor[0]}; it is {hit.snippet_start_line}")
        words = [*editor, path]
    _run(words)


def _check_note(path: str, workspace: str) -> None:
    """Raise `NotFoundError` unless a path is still a regular file that no link leads to.

    A note that was replaced by a link since the search could open, and then change, any file. The
    way to the workspace, or to the folder of a file outside, may lead through links.
    """
    root = os.path.join(workspace, "")
    at = workspace if path.startswith(root) else os.path.dirname(path)
    names = os.path.relpath(path, at).split(os.sep)
    for name in names:
        at = os.path.join(at, name)
        if os.path.islink(at):
            raise NotFoundError(f"{at} is a link now, which is no note", hint="search again")
    if not os.path.isfile(path):
        raise NotFoundError(f"{path} no longer exists", hint="search again")


def chosen_editor() -> list[str]:
    """Return the words of `$VISUAL`, else `$EDITOR`, else `vi`. Raises `MemorydError`."""
    import shlex

    for variable in ("VISUAL", "EDITOR"):
        try:
            words = shlex.split(os.environ.get(variable, ""))
        except ValueError:
            raise MemorydError(
                f"${variable} has an unclosed quote: {os.environ[variable]}",
                code="no_editor",
                hint=f"set {variable} to a command, such as `vi`",
            ) from None
        if words:
            return words
    return ["vi"]


def command(editor: list[str], path: str, line: int) -> list[str] | None:
    """Return the words that open `path` at a line; None for an unknown editor.

    `path` is absolute, so that no editor takes it for an option.
    """
    # Names such as Debian's vim.basic and JetBrains' pycharm.sh begin with the editor's name.
    name = os.path.basename(editor[0]).partition(".")[0].lower()
    for names, syntax in _SYNTAXES:
        if name in names.split():
            return [*editor, *(word.format(line=line, path=path) for word in syntax)]
    return None


def _run(words: list[str]) -> None:
    # Ctrl-C is for the editor, which may continue. A handler, unlike SIG_IGN, is not inherited.
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        status = subprocess.call(words)
    except OSError as error:
        raise MemorydError(
            f"can't run the editor {words[0]}: {error.strerror}",
            code="no_editor",
            hint="set VISUAL or EDITOR to an installed command",
        ) from error
    finally:
        signal.signal(signal.SIGINT, before)
    if status:
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        raise MemorydError(f"the editor {words[0]} ended with {how}", code="editor_failed")
