"""Gemini's files and batch jobs, in all spellings of its versions and proxies.

https://ai.google.dev/api/files, https://ai.google.dev/api/batch-api
"""

import itertools
import json
from dataclasses import dataclass
from typing import Any, Literal

from vendors.batches import Batches, Job, StoredFile, parts
from vendors.double import Answer, RefusedError, Seen, as_json
from vendors.faults import Fault
from vendors.vectors import embedding

_TIME = "2026-01-02T03:04:05.678901Z"
_TYPE = "type.googleapis.com/google.ai.generativelanguage.v1main.EmbedContentBatch"
_STATES = {
    "validating": "PENDING",
    "in_progress": "RUNNING",
    "finalizing": "RUNNING",
    "cancelling": "RUNNING",
    "failed": "FAILED",
    "expired": "EXPIRED",
    "cancelled": "CANCELLED",
    "canceled": "CANCELED",
}
_CODES = {"failed": 13, "expired": 4, "cancelled": 1, "canceled": 1}
"""google.rpc.Code: INTERNAL, DEADLINE_EXCEEDED, CANCELLED."""

Where = Literal["metadata", "top", "done"]
Output = Literal[
    "response.responsesFile",
    "metadata.output.responsesFile",
    "outputConfig.file",
    "outputConfig.fileId",
    "dest.fileName",
]


@dataclass(frozen=True, slots=True)
class StateStyle:
    """The spelling of a job's state, the place of its output, and the format of its lines.

    `where` = "done" gives only `done`, and `error` for a failure. Without `nested`, a line has its
    `embedding` at the top level.
    """

    where: Where = "metadata"
    prefix: Literal["BATCH_STATE_", "JOB_STATE_", ""] = "BATCH_STATE_"
    word: Literal["SUCCEEDED", "COMPLETED", "DONE"] = "SUCCEEDED"
    output: tuple[Output, ...] = ("response.responsesFile", "metadata.output.responsesFile")
    key: Literal["key", "custom_id", "request_id"] = "key"
    nested: bool = True


_WHERES: tuple[Where, ...] = ("metadata", "top", "done")
_OUTPUTS: tuple[Output, ...] = (
    "response.responsesFile",
    "metadata.output.responsesFile",
    "outputConfig.file",
    "outputConfig.fileId",
    "dest.fileName",
)
STATE_STYLES = (
    StateStyle(),
    *(StateStyle(where, output=(place,)) for where, place in itertools.product(_WHERES, _OUTPUTS)),
    StateStyle("top", "JOB_STATE_"),
    StateStyle("metadata", "JOB_STATE_"),
    StateStyle("top", ""),
    StateStyle("metadata", ""),
    StateStyle("top", "", "COMPLETED"),
    StateStyle("metadata", "JOB_STATE_", "DONE"),
    StateStyle(key="custom_id", nested=False),
    StateStyle(key="request_id"),
)
"""The official style first, then one variant at a time."""


class GeminiBatches(Batches):
    """Jobs as long-running operations. `state_style` selects the spelling."""

    state_style = StateStyle()

    def answer(self, seen: Seen) -> Answer | None:
        """Answer a request about files or batches, None for another. Raises `RefusedError`."""
        match [seen.method, *seen.path.strip("/").split("/")]:
            case ["POST", "upload", "v1beta", "files"]:
                return self._upload(seen)
            case ["GET", "download", "v1beta", "files", name]:
                return self._download(seen, name)
            case ["GET", "v1beta", "files", name] if name.endswith(":download"):
                return self._download(seen, name)
            case ["GET", "v1beta", "files"]:
                return as_json(self._files(seen))
            case ["GET", "v1beta", "files", name]:
                return as_json(_file(self._found(f"files/{name}")))
            case ["DELETE", "v1beta", "files", name]:
                del self.files[self._found(f"files/{name}").id]
                return as_json({})
            case ["POST", "v1beta", "models", name] if name.endswith(":asyncBatchEmbedContent"):
                return as_json(self._job(self._create(seen, name.partition(":")[0])))
            case ["GET", "v1beta", "batches"]:
                return as_json(self._list(seen))
            case ["GET", "v1beta", "batches", name]:
                job = self._job_found(name)
                if self.advance(job):
                    self._finish(job)
                return as_json(self._job(job))
            case ["POST", "v1beta", "batches", name] if name.endswith(":cancel"):
                job = self._job_found(name.removesuffix(":cancel"))
                job.status = job.status if job.over else "cancelling"
                return as_json({})
            case ["DELETE", "v1beta", "batches", name]:
                self.jobs.remove(self._job_found(name))
                return as_json({})
        return None

    def _upload(self, seen: Seen) -> Answer:
        command = seen.headers.get("x-goog-upload-command", "")
        if seen.query.get("uploadType") == "multipart":
            try:
                (_, head), (_, data) = parts(seen.headers.get("content-type", ""), seen.body)
                named = dict(json.loads(head).get("file", {}))
            except ValueError as error:
                raise RefusedError(Fault.BAD_REQUEST, message="Malformed upload.") from error
            return as_json({"file": _file(self._new_file(named.get("displayName", ""), data))})
        if command == "start":
            named = dict((seen.body or {}).get("file", {}))
            file = self._new_file(named.get("displayName", ""), b"")
            base = self.double.url.removesuffix("/v1beta")
            url = f"{base}/upload/v1beta/files?upload_id={file.id}&upload_protocol=resumable"
            return as_json({}, headers={"X-Goog-Upload-URL": url, "X-Goog-Upload-Status": "active"})
        file = self._found(seen.query.get("upload_id", ""))
        file.data += seen.body
        self.stored(file)
        if "finalize" not in command:
            return as_json({}, headers={"X-Goog-Upload-Status": "active"})
        return as_json({"file": _file(file)}, headers={"X-Goog-Upload-Status": "final"})

    def _files(self, seen: Seen) -> dict[str, Any]:
        newest = list(self.files.values())[::-1]
        start = int(seen.query.get("pageToken") or 0)
        end = start + min(int(seen.query.get("pageSize") or 10), 100)
        told: dict[str, Any] = {"files": [_file(file) for file in newest[start:end]]}
        return told | ({"nextPageToken": str(end)} if end < len(newest) else {})

    def _new_file(self, name: str, data: bytes) -> StoredFile:
        return self.stored(StoredFile(self.new_id("files/double"), name, data, "UPLOADED"))

    def _found(self, name: str) -> StoredFile:
        if name not in self.files:
            message = f"You do not have permission to access the File {name} or it may not exist."
            raise RefusedError(Fault.NOT_FOUND, message=message)
        return self.files[name]

    def _download(self, seen: Seen, name: str) -> Answer:
        file = self._found(f"files/{name.removesuffix(':download')}")
        if seen.query.get("alt") != "media" or file.purpose == "UPLOADED":
            raise RefusedError(Fault.BAD_REQUEST, message="The file can't be downloaded like this.")
        return self.content(file, "application/jsonl")

    def _create(self, seen: Seen, model: str) -> Job:
        self.refuse_create()
        if model not in self.double.models:
            raise RefusedError(Fault.UNKNOWN_MODEL, model=model)
        try:
            batch = dict(seen.body["batch"])
            given = dict(batch.get("inputConfig") or batch["input_config"])
            name = given.get("fileName") or given.get("file_name")
            if name is None:
                lines = [dict(line) for line in given["requests"]["requests"]]
            else:
                data = self._found(name).data.decode().removesuffix("\n")
                lines = [dict(json.loads(line)) for line in data.split("\n")]
            if name is not None and (
                len({line["key"] for line in lines}) != len(lines)
                or not all(isinstance(line["key"], str) for line in lines)
            ):
                raise ValueError("keys are not unique texts")
            if not all(map(_text, lines)) or len(lines) > self.max_lines:
                raise ValueError("a line has no text, or there are too many")
        except (KeyError, TypeError, ValueError) as error:
            message = f"Invalid batch: {error}"
            raise RefusedError(Fault.BAD_REQUEST, message=message) from error
        job = Job(self.new_id("batches/double"), seen.body, lines, model)
        self.jobs.append(job)
        return job

    def _job_found(self, name: str) -> Job:
        for job in self.jobs:
            if job.id == f"batches/{name}":
                return job
        raise RefusedError(Fault.NOT_FOUND)

    def _list(self, seen: Seen) -> dict[str, Any]:
        newest = self.jobs[::-1]
        start = int(seen.query.get("pageToken") or 0)
        end = start + int(seen.query.get("pageSize") or 50)
        told: dict[str, Any] = {"operations": [self._job(job) for job in newest[start:end]]}
        return told | ({"nextPageToken": str(end)} if end < len(newest) else {})

    def _finish(self, job: Job) -> None:
        keys = [str(line.get("key", number)) for number, line in enumerate(job.lines)]
        job.failed = self.failing(job, keys)
        if job.status != "completed":
            return
        done = list(zip(keys, job.lines, strict=True))
        job.results = [self._result(key, line, job) for key, line in done]
        texts = [_text(line) for key, line in done if key not in job.failed]
        if all("key" in line for line in job.lines):
            results = job.results[::-1] if self.reorder else job.results
            data = "".join(json.dumps(result) + "\n" for result in results).encode()
            name = self.new_id("files/batch-double")
            job.output = self.stored(StoredFile(name, "", data, "GENERATED", texts))
        else:
            self.double.embedded.update(texts)

    def _result(self, key: str, line: dict[str, Any], job: Job) -> dict[str, Any]:
        style = self.state_style
        named: dict[str, Any] = {style.key: key} if "key" in line else {}
        if key in job.failed:
            return {**named, "error": {"code": 3, "message": "The request is not valid."}}
        dims = line["request"].get("outputDimensionality") or self.double.dims
        answer = {"embedding": {"values": embedding(_text(line), dims)}}
        return {**named, "response": answer} if style.nested else {**named, **answer}

    def _job(self, job: Job) -> dict[str, Any]:
        style = self.state_style
        state = style.prefix + (
            style.word if job.status == "completed" else _STATES.get(job.status, "UNSPECIFIED")
        )
        batch = job.request["batch"]
        told: dict[str, Any] = {
            "name": job.id,
            "metadata": {
                "@type": _TYPE,
                "model": f"models/{job.model}",
                "displayName": batch.get("displayName", ""),
                "createTime": _TIME,
                "updateTime": _TIME,
                "batchStats": {
                    "requestCount": str(len(job.lines)),
                    "pendingRequestCount": str(0 if job.over else len(job.lines)),
                },
                "name": job.id,
            },
        }
        if style.where != "done":
            (told if style.where == "top" else told["metadata"])["state"] = state
        if job.over:
            told["done"] = True
            told["metadata"]["endTime"] = _TIME
        if job.status in _CODES:
            message = f"The batch is {job.status}."
            told["error"] = {"code": _CODES[job.status], "message": message}
        elif job.output is not None:
            for place in style.output:
                _put(told, place, job.output.id)
        elif job.results:
            _put(told, "metadata.output.inlinedResponses", {"inlinedResponses": job.results})
        return told


def _text(line: dict[str, Any]) -> str:
    parts_ = line["request"]["content"]["parts"]
    return "".join(part["text"] for part in parts_)


def _put(tree: dict[str, Any], place: str, value: object) -> None:
    *above, last = place.split(".")
    for name in above:
        tree = tree.setdefault(name, {})
    tree[last] = value


def _file(file: StoredFile) -> dict[str, Any]:
    return {
        "name": file.id,
        "displayName": file.name,
        "mimeType": "application/jsonl",
        "sizeBytes": str(len(file.data)),
        "createTime": _TIME,
        "updateTime": _TIME,
        "uri": f"https://generativelanguage.googleapis.com/v1beta/{file.id}",
        "state": "ACTIVE",
        "source": file.purpose,
    }
