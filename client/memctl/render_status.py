"""Text output of `memctl status`, in the order that the reference uses. Pure."""

from memoryd_client.schema.agents import AgentSummary
from memoryd_client.schema.status import (
    BatchStatus,
    EmbeddingStatus,
    Failure,
    StatusResult,
    VectorStatus,
    WatchStatus,
)
from memoryd_client.shared.humanize import counted, duration, size
from memoryd_client.shared.style import Style, printable_name

LabelledValue = tuple[str, str]


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
    rows = [
        ("State", _because(agent.state, agent.reason)),
        ("Store", agent.db_path),
        ("Workspace", agent.workspace_dir),
    ]
    return _block(agent.agent, rows, style)


def _block(agent_id: str, rows: list[LabelledValue], style: Style) -> str:
    width = max(len(label) for label, _ in rows)
    lines = [style.bold(f"Memory Search ({printable_name(agent_id)})")]
    last = ""
    for label, value in rows:
        shown = "" if label == last else label
        lines.append(f"{style.dim(f'{shown:<{width}}')}  {printable_name(value)}".rstrip())
        last = label
    return "\n".join(lines) + "\n"


def _index_rows(result: StatusResult) -> list[LabelledValue]:
    dirty = _because("yes", "; ".join(result.dirty_reasons)) if result.dirty else "no"
    rows = [
        ("Provider", f"{result.provider} (requested: {result.requested_provider})"),
        ("Model", result.model),
        ("Sources", ", ".join(result.sources)),
    ]
    if result.extra_paths:
        rows.append(("Extra paths", ", ".join(result.extra_paths)))
    rows += [
        ("Indexed", _amount(result.files, result.total_files, result.chunks)),
        ("Dirty", dirty),
    ]
    if result.pending_files or result.pending_vectors:
        files, vectors = result.pending_files, result.pending_vectors
        rows.append(("Pending", f"{counted(files, 'file')} · {counted(vectors, 'vector')}"))
    if rebuild := result.rebuild:
        done = f"{rebuild.label} {rebuild.completed}/{rebuild.total}".strip()
        rows.append(("Rebuild", f"{done} ({rebuild.reason})"))
    rows += [
        ("Store", f"{result.db_path} ({size(result.db_bytes)})"),
        ("Workspace", result.workspace_dir),
    ]
    return rows


def _amount(files: int, total_files: int, chunks: int) -> str:
    return f"{files}/{counted(total_files, 'file')} · {counted(chunks, 'chunk')}"


def _part_rows(result: StatusResult) -> list[LabelledValue]:
    custom = result.custom
    identity = custom.index_identity
    rows = [
        ("Embeddings", _because(custom.provider_state, custom.provider_unavailable_reason)),
        *([] if result.embedding is None else _embedding_rows(result.embedding)),
        ("Index identity", _because(identity.status, identity.reason)),
    ]
    rows += [
        ("By source", f"{c.source} · {_amount(c.files, c.total_files, c.chunks)}")
        for c in result.source_counts
    ]
    if result.fallback:
        rows.append(("Fallback", result.fallback))
    rows += _vector_rows(result.vector)
    if not result.fts.enabled:
        rows.append(("FTS", "disabled"))
    else:
        rows.append(("FTS", _because(_ready(result.fts.available), result.fts.error)))
    cache = result.cache
    if cache.enabled:
        traffic = f"{cache.entries} entries, {cache.hits} hits, {cache.misses} misses"
        rows.append(("Embedding cache", f"enabled ({traffic})"))
        rows.append(("Cache cap", str(cache.max_entries) if cache.max_entries else "none"))
    else:
        rows.append(("Embedding cache", "disabled"))
    rows += _batch_rows(result.batch)
    return rows


def _vector_rows(vector: VectorStatus) -> list[LabelledValue]:
    if not vector.enabled:
        return [("Vector store", "disabled")]
    rows = [
        ("Vector store", _ready(vector.store_available)),
        ("Semantic vectors", f"{_ready(vector.semantic_available)} ({vector.in_memory} in memory)"),
    ]
    if vector.dims is not None:
        rows.append(("Vector dims", str(vector.dims)))
    if vector.extension_path:
        rows.append(("Vector path", vector.extension_path))
    if vector.load_error:
        rows.append(("Vector error", vector.load_error))
    return rows


def _embedding_rows(embedding: EmbeddingStatus) -> list[LabelledValue]:
    traffic = [
        counted(embedding.requests, "request"),
        counted(embedding.items, "item"),
        counted(embedding.tokens, "token"),
        *(
            f"{number} {name}"
            for number, name in ((embedding.retries, "retried"), (embedding.failures, "failed"))
            if number
        ),
    ]
    if embedding.waits:
        traffic.append(f"{embedding.waits} held back for {duration(embedding.waited_s)}")
    if embedding.cost is not None:
        traffic.append(f"cost {embedding.cost:.4f}")
    rows = [("Traffic", " · ".join(traffic))]
    if embedding.address is not None:
        where = "another machine" if embedding.leaves_machine else "this machine"
        rows.append(("Texts go to", f"{embedding.address} ({where})"))
    if embedding.chosen_because is not None:
        rows.append(("Chosen", embedding.chosen_because))
    return rows


def _batch_rows(batch: BatchStatus) -> list[LabelledValue]:
    if not batch.supported:
        return [("Batch", "not supported by this provider")]
    state = "enabled" if batch.enabled else "disabled"
    failures = f"failures {batch.failures}/{batch.limit}" if batch.failures else None
    rows = [("Batch", _because(state, batch.off_reason or failures))]
    if batch.last_error is not None:
        rows.append(("Batch error", batch.last_error))
    rows += [
        ("Batch job", f"{job.id}: {job.state}, {counted(job.texts, 'text')}, {duration(job.age_s)}")
        for job in batch.jobs
    ]
    return rows


def _daemon_rows(result: StatusResult) -> list[LabelledValue]:
    rows = [("Watching", _watch(result.watch))]
    if result.last_scan_s_ago is not None:
        rows.append(("Last scan", f"{duration(result.last_scan_s_ago)} ago"))
    rows += [
        (
            "Queue",
            f"{queue.name} {queue.depth}/{queue.size}, {queue.high_water} at most",
        )
        for queue in result.queues
        if queue.depth
    ]
    rows += [
        (
            "Daemon",
            f"memoryd {result.version}, pid {result.pid}, up {duration(result.uptime_s)}, "
            f"{size(result.rss_bytes)}",
        ),
        (
            "Runs on",
            f"Python {result.python_version}, SQLite {result.sqlite_version} "
            f"({result.sqlite_driver})",
        ),
        ("Socket", result.socket_path),
    ]
    return rows


def _watch(watch: WatchStatus) -> str:
    if not watch.enabled:
        return "disabled"
    if not watch.armed:
        return _because("not armed", watch.error)
    event = watch.last_event_s_ago
    ago = "" if event is None else f", last change {duration(event)} ago"
    return _because(f"{counted(watch.folders, 'folder')}{ago}", watch.error)


def _trouble(result: StatusResult) -> list[LabelledValue]:
    rows = [("Degraded", reason) for reason in result.degraded]
    rows += [("Error", _failure(error)) for error in result.errors]
    rows += [("Failure", _failure(failure)) for failure in result.failures]
    rows += _more("Failure", result.failure_count - len(result.failures))
    rows += [("Skipped", f"{path.path} ({path.reason})") for path in result.skipped_paths]
    rows += _more("Skipped", result.skipped_count - len(result.skipped_paths))
    rows += [("Remark", _failure(remark)) for remark in result.remarks]
    rows += _more("Remark", result.remark_count - len(result.remarks))
    return rows


def _failure(failure: Failure) -> str:
    text = f"{failure.what}: {failure.reason}"
    if failure.attempts > 1:
        text += f" ({failure.attempts} attempts)"
    if failure.retry_in_s is not None:
        text += f", next try in {duration(failure.retry_in_s)}"
    return text


def _more(label: str, count: int) -> list[LabelledValue]:
    return [(label, f"and {count} more")] if count > 0 else []


def _ready(available: bool) -> str:
    return "ready" if available else "unavailable"


def _because(state: str, reason: str | None) -> str:
    return f"{state} ({reason})" if reason else state
