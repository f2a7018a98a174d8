"""Settings of OpenClaw's memory search that memoryd has under another name, or not at all."""

import re

OTHER_KEYS = {
    "experimental": "transcripts are searched with sessions.enabled = true",
    "experimental.session_memory": "transcripts are searched with sessions.enabled = true",
    "local.context_size": "use local.context_tokens",
    "qmd.limits": "use query.max_results, query.snippet_chars and qmd.search_timeout_ms",
    "qmd.paths": "use extra_paths",
    "qmd.sessions": "transcripts are searched with sessions.enabled = true",
    "qmd.update": "use qmd.update_minutes, qmd.embed_minutes and qmd.update_timeout_seconds",
    "remember_across_conversations": "use sessions.enabled and sessions.visibility",
    "remote.api_key": "name a file with the key: remote.api_key_file",
    "sources": "notes are always searched; transcripts with sessions.enabled = true",
    "sync.embedding_batch_timeout_seconds": "use remote.batch.timeout_minutes for batch jobs",
}
"""Hints for keys that have another name here, by the reference's key in snake case."""

NO_KEYS = {
    "citations": "each client decides whether to show citations",
    "enabled": "memory is on while the daemon runs",
    "local.model_cache_dir": "memoryd download-model says where it puts a model",
    "memory": "put its keys into [defaults] or [agents.<id>]",
    "memory_search": "put its keys into [defaults] or [agents.<id>]",
    "multimodal": "memoryd reads Markdown and transcripts only",
    "qmd.include_default_memory": "the notes of the workspace are always searched",
    "qmd.mcporter": "memoryd runs the server of QMD itself",
    "qmd.scope": "name the kind of chat in a search: chat_type",
    "remote.batch.wait": "nothing waits for batch jobs; status shows them",
    "search": "put its keys into [defaults] or [agents.<id>]",
    "store.driver": "the index is always an SQLite file",
    "store.fts": "the tokenizer is fixed",
    "store.fts.tokenizer": "the tokenizer is fixed",
    "sync.sessions.post_compaction_force": "call transcript_updated after a compaction",
}
"""Reasons why there is no such key here."""


def reference_hint(dotted: str, known: list[str]) -> str | None:
    """Return what to do about a key of the reference; None if it has no such key."""
    key = re.sub(r"(?<=[a-z0-9])[A-Z]", lambda found: f"_{found[0]}", dotted).lower()
    if key in OTHER_KEYS:
        return OTHER_KEYS[key]
    if key in NO_KEYS:
        return f"there is no such key: {NO_KEYS[key]}"
    return f"use {key}" if key != dotted and key in known else None
