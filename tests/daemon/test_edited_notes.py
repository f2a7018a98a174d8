"""Searches after edits: nothing that the daemon keeps between searches may be old."""

from harness import Daemon


def test_an_edited_note_is_shown_as_it_is_now(daemon: Daemon) -> None:
    daemon.write("memory/keys.md", "# Keys\n\nThe spare key is under the mat.\n")
    daemon.write("memory/other.md", "# Other\n\nThe spare bulbs are in the shed.\n")
    daemon.start().sync()
    for place in ("under the mat", "behind the clock", "under the mat", "in the blue pot"):
        daemon.write("memory/keys.md", f"# Keys\n\nThe spare key is {place}.\n")
        daemon.sync()
        for query in ("where is the spare key", "spare key", place):
            (hit, *_) = daemon.search(query).results
            assert hit.snippet == f"# Keys\n\nThe spare key is {place}."


def test_another_title_counts_at_once(daemon: Daemon) -> None:
    text = "---\ntitle: {0}\naliases: [{0}]\n---\n\nIt hums at night.\n"
    daemon.write("memory/a.md", text.format("Boiler"))
    daemon.write("memory/b.md", "# Fridge\n\nIt hums at night.\n")
    daemon.start().sync()
    for title, gone in (("Boiler", "Furnace"), ("Furnace", "Boiler"), ("Boiler", "Furnace")):
        daemon.write("memory/a.md", text.format(title))
        daemon.sync()
        (hit, *_) = daemon.search(f"what hums, the {title}?").results
        assert (hit.path, hit.title) == ("memory/a.md", title)
        assert daemon.search(gone).results == []


def test_another_heading_counts_at_once(daemon: Daemon) -> None:
    lines = "".join(f"Line {n} of many that say nothing in particular.\n" for n in range(120))
    daemon.start().sync()
    for heading, gone in (("Paris", "Lisbon"), ("Lisbon", "Paris"), ("Paris", "Lisbon")):
        daemon.write("memory/trip.md", f"# {heading}\n\n{lines}The hotel was loud.\n")
        daemon.sync()
        (hit, *_) = daemon.search(f"hotel in {heading}").results
        assert "The hotel was loud." in hit.snippet
        assert daemon.search(gone).results == []


def test_a_deleted_note_does_not_lend_its_text_to_the_next_one(daemon: Daemon) -> None:
    daemon.write("memory/first.md", "The dentist is Dr. Okapi.\n")
    daemon.start().sync()
    for name in ("Zebra", "Lynx", "Ibex"):
        # The newest chunk goes, so the next one may get its number.
        last = daemon.write(f"memory/{name}.md", f"The vet is Dr. {name}.\n")
        daemon.sync()
        (hit, *_) = daemon.search("who is the vet?").results
        assert hit.snippet == f"The vet is Dr. {name}."
        last.unlink()
        daemon.sync()
        assert not any("vet" in hit.snippet for hit in daemon.search("who is the vet?").results)
