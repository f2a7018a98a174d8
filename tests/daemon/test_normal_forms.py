"""Names in NFD, as macOS writes them, and in NFC, as keyboards type them: the same file."""

from typing import Literal, get_args
from unicodedata import normalize

import pytest
from harness import Daemon

from memoryd_client.errors import NotFoundError

Form = Literal["NFC", "NFD"]
FORMS: tuple[Form, ...] = get_args(Form)
NAME = "memory/Bücher/Café à Đà Nẵng 각.md"


def other(form: Form) -> Form:
    return next(each for each in FORMS if each != form)


@pytest.mark.parametrize("form", FORMS)
def test_a_file_is_reached_in_either_form(daemon: Daemon, form: Form) -> None:
    stored, typed = normalize(form, NAME), normalize(other(form), NAME)
    daemon.write(stored, "one\na shelf of plums\nthree\n")
    daemon.start().sync()
    with daemon.client() as client:
        for path in (typed, f"./{typed}", str(daemon.workspace / typed)):
            answer = client.get(path)
            assert (answer.path, answer.total_lines) == (stored, 3)
        for citation in (f"{typed}#L2-L2", f"{typed}:2"):
            cited = client.get(citation)
            assert (cited.path, cited.text) == (stored, "a shelf of plums")
        for glob in (typed, normalize(other(form), "memory/Bücher/*"), "memory/B?cher/**"):
            assert [hit.path for hit in client.search("plums", path_glob=glob).results] == [stored]
        with pytest.raises(NotFoundError):
            client.get(normalize(other(form), "memory/Bücher/Thé.md"))
    shown = daemon.memctl("get", typed).stdout
    assert "a shelf of plums" in shown
    found = daemon.memctl_json("search", "plums", "--path", typed)
    assert [hit["path"] for hit in found["results"]] == [stored]


def test_of_two_files_the_one_that_is_named_exactly_counts(daemon: Daemon) -> None:
    for form in FORMS:
        daemon.write(normalize(form, NAME), f"a shelf in {form}\n")
    daemon.start().sync()
    with daemon.client() as client:
        for form in FORMS:
            assert client.get(normalize(form, NAME)).text == f"a shelf in {form}"


@pytest.mark.parametrize("form", FORMS)
def test_a_file_is_forgotten_and_deleted_in_either_form(daemon: Daemon, form: Form) -> None:
    file = daemon.write(normalize(form, NAME), "a shelf of plums\n")
    daemon.start().sync()
    with daemon.client() as client:
        client.forget(path=normalize(other(form), NAME), delete_source=True)
        assert client.search("plums").results == []
    assert not file.exists()


@pytest.mark.parametrize("form", FORMS)
def test_an_ignore_file_hides_a_file_in_either_form(daemon: Daemon, form: Form) -> None:
    daemon.write(normalize(form, NAME), "a shelf of plums\n")
    daemon.write("memory/.memoryignore", normalize(other(form), "B?cher/Café*\n"))
    daemon.start().sync()
    assert daemon.paths("plums") == []


@pytest.mark.parametrize("form", FORMS)
def test_a_transcript_is_reached_in_either_form(daemon: Daemon, form: Form) -> None:
    daemon.settings += '\nsessions = { enabled = true, paths = ["~/chats"] }'
    name = normalize(form, "Café.jsonl")
    daemon.write(f"../chats/{name}", '{"role": "user", "content": "a shelf of plums"}\n')
    daemon.start().sync()
    (path,) = daemon.paths("plums", sources=["sessions"])
    with daemon.client() as client:
        assert "plums" in client.get(normalize(other(form), path)).text
        client.forget(path=normalize(other(form), path))
        assert client.search("plums").results == []
