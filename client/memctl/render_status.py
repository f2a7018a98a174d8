"""Text output of `memctl status`, in the order that the reference uses. Pure."""

from memoryd_client.schema.agents import AgentSummary
from memoryd_client.schema.status import (
    BackendStatus,
    BatchStatus,
    EmbeddingStatus,
    Failure,
    SessionNotesStatus,
    StatusResult,
    VectorStatus,
    WatchStatus,
)
from memoryd_client.shared.humanize import counted, destination, duration, size
from memoryd_client.shared.style import Style, one_line, printable_name

Row = tuple[str, str | None]
"""A label and its value; a row without a value is not shown."""


def overview(agents: list[StatusResult | AgentSummary], style: Style) -> str:
    """Return one block per agent; a summary stands for an agent that can't answer."""
    if not agents:
        return "No agents.\n"
    return "\n".join(
        status(agent, style) if isinstance(agent, StatusResult) else _not_ready(agent, style)
        for agent in agents
    )


def status(result: StatusResult, style: Style) -> str:
    """Return the report of one agent: index, parts, daemon and problems."""
    rows = [*_index_rows(result), *_part_rows(result), *_daemon_rows(result), *_trouble(result)]
    return _block(result.agent_id, rows, style)


def _not_ready(agent: AgentSummary, style: Style) -> str:
    rows: list[Row] = [
        ("State", _because(agent.state, agent.reason)),
        ("Store", agent.db_path),
        ("Workspace", agent.workspace_dir),
    ]
    return _block(agent.agent, rows, style)


def _block(agent_id: str, rows: list[Row], style: Style) -> str:
    shown = [(label, value) for label, value in rows if value is not None]
    width = max(len(label) for label, _ in shown)
    lines = [style.bold(f"Memory Search ({printable_name(agent_id)})")]
    last = ""
    for label, value in shown:
        name = style.dim(f"{'' if label == last else label:<{width}}")
        lines.append(f"{name}  {printable_name(value)}".rstrip())
        last = label
    return "\n".join(lines) + "\n"


def _index_rows(result: StatusResult) -> list[Row]:
    files, vectors = result.pending_files, result.pending_vectors
    without = result.without_vector
    pending = f"{counted(files, 'file')} · {counted(vectors, 'vector')}"
    done = None
    if rebuild := result.rebuild:
        done = f"{rebuild.label} {rebuild.completed}/{rebuild.total}".strip()
        done += f" ({rebuild.reason})"
    backend = result.backend_status
    return [
        *([] if backend is None else _backend_rows(backend)),
        ("Provider", f"{result.provider} (requested: {result.requested_provider})"),
        ("Model", result.model),
        ("Sources", ", ".join(result.sources)),
        ("Extra paths", ", ".join(result.extra_paths) or None),
        ("Indexed", _amount(result.files, result.total_files, result.chunks)),
        ("Dirty", _because("yes", "; ".join(result.dirty_reasons)) if result.dirty else "no"),
        ("Pending", pending if files or vectors else None),
        ("No vector", f"{without} of {result.chunks} chunks, for good" if without else None),
        ("Rebuild", done),
        ("Store", f"{result.db_path} ({size(result.db_bytes)})"),
        ("Workspace", result.workspace_dir),
    ]


def _backend_rows(backend: BackendStatus) -> list[Row]:
    version = f"{backend.name} {backend.version}".strip()
    way = {"http": "server", "command": "command"}.get(backend.way, backend.way)
    if backend.pid is not None:
        way += f" (process {backend.pid})"
    is_used = backend.mode and (backend.state != "unavailable" or backend.pid is not None)
    counts = [
        counted(number, unit)
        for number, unit in ((backend.documents, "file"), (backend.vectors, "vector"))
        if number is not None
    ]
    if backend.updated_s_ago is not None:
        counts.append(f"updated {duration(backend.updated_s_ago)} ago")
    answers = f"{counted(backend.answers, 'answer')} · {counted(backend.fallbacks, 'fallback')}"
    last = None if backend.last_fallback is None else f"last fallback: {backend.last_fallback}"
    return [
        ("Back end", _because(f"{version} {backend.state}", backend.reason)),
        ("Back end", f"{backend.mode}, by {way}" if is_used else None),
        ("Back end", " · ".join(counts) or None),
        ("Back end", answers),
        ("Back end", last),
    ]


def _amount(files: int, total_files: int, chunks: int) -> str:
    return f"{files}/{counted(total_files, 'file')} · {counted(chunks, 'chunk')}"


def _part_rows(result: StatusResult) -> list[Row]:
    custom, cache, fts = result.custom, result.cache, result.fts
    identity = custom.index_identity
    traffic = f"{cache.entries} entries, {cache.hits} hits, {cache.misses} misses"
    cap = str(cache.max_entries) if cache.max_entries else "none"
    return [
        ("Embeddings", _because(custom.provider_state, custom.provider_unavailable_reason)),
        *([] if result.embedding is None else _embedding_rows(result.embedding)),
        ("Index identity", _because(identity.status, identity.reason)),
        *(
            ("By source", f"{c.source} · {_amount(c.files, c.total_files, c.chunks)}")
            for c in result.source_counts
        ),
        ("Session notes", _session_notes(result.session_notes)),
        ("Fallback", result.fallback or None),
        *_vector_rows(result.vector),
        ("FTS", _because(_ready(fts.available), fts.error) if fts.enabled else "disabled"),
        ("Embedding cache", f"enabled ({traffic})" if cache.enabled else "disabled"),
        ("Cache cap", cap if cache.enabled else None),
        *_batch_rows(result.batch),
    ]


def _session_notes(notes: SessionNotesStatus | None) -> str | None:
    if notes is None:
        return None
    last = f", last {notes.last}" if notes.last else ""
    failed = f", {len(notes.failures)} failed" if notes.failures else ""
    return f"{notes.written} written since the start{last}{failed}"


def _vector_rows(vector: VectorStatus) -> list[Row]:
    if not vector.enabled:
        return [("Vector store", "disabled")]
    return [
        ("Vector store", _ready(vector.store_available) if vector.extension_path else None),
        ("Semantic vectors", f"{_ready(vector.semantic_available)} ({vector.in_memory} in memory)"),
        ("Vector dims", None if vector.dims is None else str(vector.dims)),
        ("Vector path", vector.extension_path or None),
        ("Vector error", vector.load_error or None),
    ]


def _embedding_rows(embedding: EmbeddingStatus) -> list[Row]:
    traffic = [
        counted(embedding.requests, "request"),
        counted(embedding.items, "item"),
        counted(embedding.tokens, "token"),
    ]
    if embedding.retries:
        traffic.append(f"{embedding.retries} retried")
    if embedding.failures:
        traffic.append(f"{embedding.failures} failed")
    if embedding.waits:
        traffic.append(f"{embedding.waits} held back for {duration(embedding.waited_s)}")
    if embedding.cost is not None:
        traffic.append(f"cost {embedding.cost:.4f}")
    receiver = None
    if embedding.address is not None:
        receiver = destination(
            embedding.address,
            leaves_machine=embedding.leaves_machine,
            proxy=embedding.proxy,
            unencrypted=embedding.unencrypted,
        )
    budget = None
    if embedding.max_tokens_per_day is not None:
        budget = f"{embedding.tokens_today or 0} of {embedding.max_tokens_per_day} tokens today"
    return [
        ("Traffic", " · ".join(traffic)),
        ("Texts go to", receiver),
        ("Budget", budget),
        ("Chosen", embedding.chosen_because),
    ]


def _batch_rows(batch: BatchStatus) -> list[Row]:
    if not batch.supported:
        return [("Batch", "not supported by this provider")]
    state = "enabled" if batch.enabled else "disabled"
    failures = f"failures {batch.failures}/{batch.limit}" if batch.failures else None
    return [
        ("Batch", _because(state, batch.off_reason or failures)),
        ("Batch error", batch.last_error),
        *(
            ("Batch job", f"{j.id}: {j.state}, {counted(j.texts, 'text')}, {duration(j.age_s)}")
            for j in batch.jobs
        ),
        ("Batch files", _undeleted(batch) if batch.undeleted else None),
    ]


def _undeleted(batch: BatchStatus) -> str:
    return _because(
        f"of {counted(batch.undeleted, 'ended job')} not deleted at the provider yet",
        batch.undeleted_error,
    )


def _daemon_rows(result: StatusResult) -> list[Row]:
    scan, up, memory = result.last_scan_s_ago, duration(result.uptime_s), size(result.rss_bytes)
    sqlite = f"SQLite {result.sqlite_version} ({result.sqlite_driver})"
    return [
        ("Watching", _watch(result.watch)),
        ("Last scan", None if scan is None else f"{duration(scan)} ago"),
        *(
            ("Queue", f"{queue.name} {queue.depth}/{queue.size}, {queue.high_water} at most")
            for queue in result.queues
            if queue.depth
        ),
        ("Daemon", f"memoryd {result.version}, pid {result.pid}, up {up}, {memory}"),
        ("Runs on", f"Python {result.python_version}, {sqlite}"),
        ("Socket", result.socket_path),
        ("Restricted", _restricted(result)),
    ]


def _restricted(result: StatusResult) -> str | None:
    """Return the restricted socket's operations, and its path unless `Socket` has it."""
    operations = ", ".join(result.allowed) or "nothing"
    if result.restricted:
        return f"to {operations}"
    socket = result.restricted_socket
    return None if socket is None else f"{socket} ({operations})"


def _watch(watch: WatchStatus) -> str:
    if not watch.enabled:
        return "disabled"
    if not watch.armed:
        return _because("not armed", watch.error)
    event = watch.last_event_s_ago
    ago = "" if event is None else f", last change {duration(event)} ago"
    return _because(f"{counted(watch.folders, 'folder')}{ago}", watch.error)


def _trouble(result: StatusResult) -> list[Row]:
    return [
        *(("Notice", line) for line in result.notices),
        *(("Degraded", reason) for reason in result.degraded),
        *(("Error", _failure(error)) for error in result.errors),
        *(("Failure", _failure(failure)) for failure in result.failures),
        ("Failure", _more(result.failure_count - len(result.failures))),
        *(("Skipped", f"{path.path} ({path.reason})") for path in result.skipped_paths),
        ("Skipped", _more(result.skipped_count - len(result.skipped_paths))),
        *(
            ("Hidden", f"{count:,} by the rule: {one_line(rule)}")
            for rule, count in result.hidden.items()
        ),
        *(("Remark", _failure(remark)) for remark in result.remarks),
        ("Remark", _more(result.remark_count - len(result.remarks))),
    ]


def _failure(failure: Failure) -> str:
    text = f"{failure.what}: {failure.reason}"
    if failure.attempts > 1:
        text += f" ({failure.attempts} attempts)"
    if failure.retry_in_s is not None:
        text += f", next try in {duration(failure.retry_in_s)}"
    return text


def _more(count: int) -> str | None:
    return f"and {count} more" if count > 0 else None


def _ready(available: bool) -> str:
    return "ready" if available else "unavailable"


def _because(state: str, reason: str | None) -> str:
    return f"{state} ({reason})" if reason else state
