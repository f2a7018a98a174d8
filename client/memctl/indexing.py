"""Commands `index` and `sync`, which show their progress."""

import sys

from memctl.arguments import Arguments
from memctl.output import progress_line, say
from memoryd_client.client import Client
from memoryd_client.schema.memory import IndexResult, SyncResult
from memoryd_client.shared.style import one_line


def wait_for(client: Client, arguments: Arguments) -> IndexResult | SyncResult:
    """Run a long request with progress on stderr."""
    force, provider, timeout_s = arguments.force, arguments.provider, arguments.timeout_s
    line = progress_line()
    try:
        if arguments.command == "index":
            result = client.index(
                force=force,
                provider=provider,
                confirm=arguments.yes,
                on_progress=line,
                timeout_s=timeout_s,
            )
            line.finish()
            if result.unconfirmed is None or arguments.json or not _is_confirmed(result):
                return result
            return client.index(confirm=True, on_progress=line, timeout_s=timeout_s)
        return client.sync(vectors=not arguments.no_vectors, on_progress=line, timeout_s=timeout_s)
    finally:
        line.finish()


def _is_confirmed(result: IndexResult) -> bool:
    """Ask whether a large upload may begin; no without a terminal."""
    if not sys.stdin.isatty():
        return False
    say(f"{one_line(result.unconfirmed or '')}\nSend them now? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
