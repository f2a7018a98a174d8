"""Client of memoryd, the memory daemon for AI agents.

    from memoryd_client import Client

    with Client() as memory:
        for hit in memory.search("when is the dentist?").results:
            print(hit.citation, hit.snippet)

`AsyncClient` has the same methods as coroutines. Needs msgspec and nothing else.
"""

from importlib import import_module

TYPE_CHECKING = False
"""As in `typing`, which takes as long to import as all that a hook needs."""

if TYPE_CHECKING:
    from memoryd_client import errors
    from memoryd_client.aio import AsyncClient
    from memoryd_client.client import Client
    from memoryd_client.errors import MemorydError
    from memoryd_client.flush import should_flush
    from memoryd_client.prompt import for_prompt
    from memoryd_client.schema.agents import (
        AddResult,
        AgentsResult,
        AgentSummary,
        DropResult,
        ReloadResult,
    )
    from memoryd_client.schema.facts import (
        Fact,
        FactCaptureResult,
        FactForgetResult,
        FactMatch,
        FactRecallResult,
        FactsResult,
        FactStoreResult,
    )
    from memoryd_client.schema.memory import (
        Check,
        ConfigResult,
        ConfigValue,
        Event,
        FileEntry,
        FilesResult,
        GetResult,
        IndexResult,
        PingResult,
        ProbeResult,
        SessionStartResult,
        SyncResult,
        TranscriptUpdatedResult,
    )
    from memoryd_client.schema.notes import NoteResult
    from memoryd_client.schema.promotion import PromoteResult
    from memoryd_client.schema.recall import (
        ContextResult,
        ContextSection,
        RecallEntry,
        RecallResult,
    )
    from memoryd_client.schema.search import Confidence, Hit, Origin, Role, SearchResult
    from memoryd_client.schema.stale import StaleResult
    from memoryd_client.schema.status import StatusResult
    from memoryd_client.schema.transcripts import (
        ExportedTranscript,
        ExportResult,
        ForgetResult,
        ImportResult,
        SessionEntry,
        SessionsResult,
    )
    from memoryd_client.session_store import SessionStore

__version__ = "0.1.0"

__all__ = [
    "AddResult",
    "AgentSummary",
    "AgentsResult",
    "AsyncClient",
    "Check",
    "Client",
    "Confidence",
    "ConfigResult",
    "ConfigValue",
    "ContextResult",
    "ContextSection",
    "DropResult",
    "Event",
    "ExportResult",
    "ExportedTranscript",
    "Fact",
    "FactCaptureResult",
    "FactForgetResult",
    "FactMatch",
    "FactRecallResult",
    "FactStoreResult",
    "FactsResult",
    "FileEntry",
    "FilesResult",
    "ForgetResult",
    "GetResult",
    "Hit",
    "ImportResult",
    "IndexResult",
    "MemorydError",
    "NoteResult",
    "Origin",
    "PingResult",
    "ProbeResult",
    "PromoteResult",
    "RecallEntry",
    "RecallResult",
    "ReloadResult",
    "Role",
    "SearchResult",
    "SessionEntry",
    "SessionStartResult",
    "SessionStore",
    "SessionsResult",
    "StaleResult",
    "StatusResult",
    "SyncResult",
    "TranscriptUpdatedResult",
    "__version__",
    "errors",
    "for_prompt",
    "should_flush",
]

_NAMES_OF_MODULE = {
    "aio": ("AsyncClient",),
    "client": ("Client",),
    "errors": ("MemorydError",),
    "flush": ("should_flush",),
    "prompt": ("for_prompt",),
    "session_store": ("SessionStore",),
    "schema.agents": ("AddResult", "AgentSummary", "AgentsResult", "DropResult", "ReloadResult"),
    "schema.facts": (
        "Fact",
        "FactCaptureResult",
        "FactForgetResult",
        "FactMatch",
        "FactRecallResult",
        "FactStoreResult",
        "FactsResult",
    ),
    "schema.notes": ("NoteResult",),
    "schema.promotion": ("PromoteResult",),
    "schema.recall": ("ContextResult", "ContextSection", "RecallEntry", "RecallResult"),
    "schema.search": ("Confidence", "Hit", "Origin", "Role", "SearchResult"),
    "schema.stale": ("StaleResult",),
    "schema.status": ("StatusResult",),
    "schema.transcripts": (
        "ExportResult",
        "ExportedTranscript",
        "ForgetResult",
        "ImportResult",
        "SessionEntry",
        "SessionsResult",
    ),
}
"""Everything else in `__all__` lives in `schema.memory`."""


def __getattr__(name: str) -> object:
    # Loading on demand keeps asyncio, and its start-up time, out of blocking programs.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "errors":
        return import_module(f"{__name__}.errors")
    modules = (module for module, names in _NAMES_OF_MODULE.items() if name in names)
    return getattr(import_module(f"{__name__}.{next(modules, 'schema.memory')}"), name)


def __dir__() -> list[str]:
    return __all__
