"""Stand-in for QMD and its Node.js: a program with its commands, and with faults on request.

It runs as `node --import … <package>/dist/cli/qmd.js <command>`, without the product's modules. The
file `faults` of the package names faults, a word each; `calls` gets the commands that ran.
"""

import fnmatch
import json
import os
import re
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

Found = list[dict[str, Any]]


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        print((Path(sys.argv[0]).parent / "node-version").read_text())
        return
    script, command, *arguments = sys.argv[sys.argv.index("--import") + 2 :]
    package = Path(script).parents[2]
    faults = (package / "faults").read_text().split()
    with (package / "calls").open("a") as calls:
        calls.write(f"{command}\n")
    threading.Thread(target=end_with_input, daemon=True).start()
    if command == "embed":
        print("Model: double.gguf")
        sys.stdout.flush()
    if f"{command}-hangs" in faults:
        threading.Event().wait()
    if f"{command}-dies" in faults:
        os.kill(os.getpid(), 11)
    if f"{command}-fails" in faults:
        sys.exit(f"Error: {command} is out of order")
    index = Path(os.environ["INDEX_PATH"])
    if command == "update":
        update(index)
    elif command == "status":
        print(f"QMD Status\n\nDocuments\n  Total:    {len(read(index))} files indexed")
        print(f"  Vectors:  {len(read(index)) if 'vectors' in faults else 0} embedded")
    elif command in ("search", "query"):
        print("\x1b[2Knoise of a model")
        print("garbage" if "garbage" in faults else json.dumps(command_search(command, arguments)))
    elif command == "mcp":
        serve(int(arguments[arguments.index("--port") + 1]), package)


def end_with_input() -> None:
    while os.read(0, 1_000):
        pass
    os._exit(0)


def read(index: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads(index.read_text())
    return found


def update(index: Path) -> None:
    config = json.loads((Path(os.environ["QMD_CONFIG_DIR"]) / "index.yml").read_text())
    documents = {}
    for name, collection in config["collections"].items():
        folder = Path(collection["path"])
        for file in sorted(folder.rglob("*.md")):
            path = str(file.relative_to(folder))
            globs = [glob.removeprefix("**/") for glob in collection["pattern"].split(",")]
            if any(fnmatch.fnmatchcase(path, glob) for glob in globs):
                documents[f"{name}/{path}"] = file.read_text(errors="replace")
    index.write_text(json.dumps(documents))


def command_search(command: str, arguments: list[str]) -> Found:
    typed = arguments[arguments.index("--") + 1]
    kinds = re.findall(r"^(lex|vec): (.*)$", typed, re.M) if command == "query" else []
    searches = kinds or [("lex", typed)]
    return find(searches, int(arguments[arguments.index("-n") + 1]), quoted=False)


def find(searches: list[tuple[str, str]], limit: int, *, quoted: bool) -> Found:
    results: Found = []
    for path, text in read(Path(os.environ["INDEX_PATH"])).items():
        for kind, query in searches:
            words = [word for word in query.lower().split() if not word.startswith("-")]
            lines = text.lower().split("\n")
            if kind == "lex" and all(word in text.lower() for word in words):
                line = next(at for at, line in enumerate(lines, 1) if words[0] in line)
                file = f"qmd://{quote(path) if quoted else path}"
                score = 1 / (len(results) + 1)
                results.append({"file": file, "line": line, "score": score, "snippet": text})
                break
    return results[:limit]


def serve(port: int, package: Path) -> None:
    with socket.create_server(("127.0.0.1", port)) as listener:
        print(f"QMD MCP server listening on http://127.0.0.1:{port}/mcp", file=sys.stderr)
        sys.stderr.flush()
        (package / "pid").write_text(str(os.getpid()))
        while True:
            connection, _ = listener.accept()
            with connection, suppress(OSError):  # the client has left
                answer(connection, (package / "faults").read_text().split())


def answer(connection: socket.socket, faults: list[str]) -> None:
    head, _, body = connection.recv(2**20).partition(b"\r\n\r\n")
    size = int(re.findall(rb"Content-Length: (\d+)", head)[0])
    while len(body) < size:
        body += connection.recv(2**20)
    if "hangs" in faults:
        connection.recv(1)  # until the client leaves
        threading.Event().wait()
    asked = json.loads(body)
    searches = [(one["type"], one["query"]) for one in asked["searches"]]
    results = find(searches, asked["limit"], quoted=True)
    if "lies" in faults:
        results = json.loads(os.environ["QMD_LIES"])
    content = b"<html>" if "garbage" in faults else json.dumps({"results": results}).encode()
    if "endless" in faults:
        while True:
            connection.sendall(b"HTTP/1.1 200 OK\r\n" + b"x" * 2**20)
    status = b"500 Internal Server Error" if "error" in faults else b"200 OK"
    connection.sendall(b"HTTP/1.1 " + status + b"\r\nConnection: close\r\n\r\n" + content)


if __name__ == "__main__":
    main()
