"""Prints what happens in memoryd as it happens: files noticed, indexed, searched and so on.

Usage: follow_events.py [--count N] [KIND ...]. Ends after N events, or with Ctrl-C.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import islice

from memoryd_client import Client, Event, MemorydError
from memoryd_client.errors import ConnectionLostError, ShuttingDownError


def events(memory: Client, kinds: list[str] | None) -> Iterator[Event]:
    """Yield events, over restarts of the daemon too; what happens in between is not seen."""
    while True:
        try:
            yield from memory.events(kinds)
        except (ConnectionLostError, ShuttingDownError) as error:
            print(f"# {error.message}", file=sys.stderr)


def line(event: Event) -> str:
    """Return an event as one line: time, agent, kind, and what it has beside."""
    clock = time.strftime("%H:%M:%S", time.localtime(event.at))
    rest = (event.path, event.count, event.text)
    return " ".join([clock, event.agent, event.kind, *(str(x) for x in rest if x is not None)])


def main() -> None:
    """Print as many events as were asked for."""
    parser = argparse.ArgumentParser(description="print memoryd's events as they happen")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="such as indexed; default: all")
    parser.add_argument("--count", type=int, help="end after so many events")
    options = parser.parse_args()
    # Its generator is closed, and with it the connection, when the last event was taken.
    for event in islice(events(Client(), options.kinds or None), options.count):
        print(line(event), flush=True)


if __name__ == "__main__":
    try:
        main()
    except (MemorydError, KeyboardInterrupt) as error:
        sys.exit(f"follow_events: {error or 'interrupted'}")
