"""Written notes: from the request to an answer that says that the note is searchable."""

import time

from bench.daemon import daemon, place, until_ready
from bench.figures import Report, at_most

NOTES, QUICK_NOTES = 300, 60
VAULT, QUICK_VAULT = 2_000, 200
"""Notes that are there before."""
SEARCHABLE_MS = 30.0


def run(report: Report, *, quick: bool) -> None:
    """Write notes into one file, one after the other, and find each by a word of its own."""
    notes, vault = (QUICK_NOTES, QUICK_VAULT) if quick else (NOTES, VAULT)
    with place() as where:
        where.configure('provider = "none"')
        folder = where.workspace / "memory"
        folder.mkdir()
        for number in range(vault):
            text = f"# Note {number}\n\n" + f"Some words of note {number}.\n" * 20
            (folder / f"note-{number}.md").write_text(text, encoding="utf-8")
        with daemon(where), where.client() as client:
            until_ready(where)
            client.sync()
            times: list[float] = []
            for number in range(notes):
                word = f"walrus{number}x"
                start = time.perf_counter()
                written = client.note(f"{word} likes the sea")
                times.append(time.perf_counter() - start)
                found = client.search(word).results
                if not (written.searchable and found and word in found[0].snippet):
                    raise RuntimeError(f"{written.citation} was acknowledged, but is not found")
    bound = at_most(SEARCHABLE_MS, checked=False)
    report.add_times("note → searchable", times, bound, vault=vault)
