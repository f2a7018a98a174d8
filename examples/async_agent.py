"""An agent's session, in asyncio: begin, remember something, and look several things up at once.

Usage: async_agent.py. Writes one note into the workspace of the agent it reaches, and removes it.
"""

import asyncio
import sys
from pathlib import Path

from memoryd_client import AsyncClient, MemorydError, SearchResult, for_prompt

NOTE = """\
# Learnt in this session

The staging database moves to port 6543 on Friday.
Green tea is out of stock; Noor orders more.
"""
QUESTIONS = ("When does the staging database move?", "Who orders green tea?", "port 6543")


async def session(memory: AsyncClient) -> None:
    """Do what an agent does with its memory from the start of a session on."""
    # Before the first turn: what was edited while nobody looked is taken in.
    await memory.session_start("example session")
    note = Path((await memory.status()).workspace_dir) / "memory" / "example-session.md"
    note.parent.mkdir(exist_ok=True)
    with note.open("x", encoding="utf-8") as file:
        file.write(NOTE)
    try:
        # Notes are searchable soon by themselves; `sync` returns when they are.
        synced = await memory.sync()
        print(f"{synced.files} files, {synced.chunks} chunks in the index")
        answers = await asyncio.gather(*(memory.search(q, max_results=1) for q in QUESTIONS))
        for question, answer in zip(QUESTIONS, answers, strict=True):
            print(f"{question} -> {first(answer)}")
        # What a model may read: memories are data, and the text says so.
        prompt = for_prompt(hit for answer in answers for hit in answer.results)
        print(prompt.partition(":")[0])
    finally:
        note.unlink()


def first(answer: SearchResult) -> str:
    """Return where the best hit is."""
    return answer.results[0].citation if answer.results else "nothing found"


async def main() -> None:
    """Run one session on one connection, which all its calls share."""
    async with AsyncClient(name="async_agent.py") as memory:
        await session(memory)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except MemorydError as error:
        sys.exit(f"async_agent: {error}")
