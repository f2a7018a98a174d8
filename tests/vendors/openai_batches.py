"""OpenAI's files and batch jobs, and Voyage's, which follow them.

https://platform.openai.com/docs/api-reference/batch, https://docs.voyageai.com/docs/batch-inference
"""

import datetime
import json
import re
from typing import Any, ClassVar

from vendors.batches import Batches, Job, StoredFile, parts
from vendors.double import Answer, Asked, RefusedError, Seen, as_json
from vendors.faults import Fault
from vendors.vectors import embedding

_CUSTOM_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CREATED_S = 1_760_000_000
_DAY_S = 86_400


class OpenAiBatches(Batches):
    """Jobs whose lines name the endpoint and the model."""

    window: ClassVar[str] = "24h"

    def answer(self, seen: Seen) -> Answer | None:
        """Answer a request about files or batches, None for another. Raises `RefusedError`."""
        match [seen.method, *seen.path.removeprefix(f"{self.double.prefix}/").split("/")]:
            case ["POST", "files"]:
                return as_json(self._file(self._upload(seen)))
            case ["GET", "files"]:
                return as_json(self._files(seen))
            case ["GET", "files", id_]:
                return as_json(self._file(self._found(id_)))
            case ["DELETE", "files", id_]:
                del self.files[self._found(id_).id]
                return as_json({"id": id_, "object": "file", "deleted": True})
            case ["GET", "files", id_, "content"]:
                return self.content(self._found(id_), "application/octet-stream")
            case ["POST", "batches"]:
                return as_json(self._job(self._create(seen)))
            case ["GET", "batches"]:
                return as_json(self._list(seen))
            case ["GET", "batches", id_]:
                job = self._job_found(id_)
                if self.advance(job):
                    self._finish(job)
                return as_json(self._job(job))
            case ["POST", "batches", id_, "cancel"]:
                return as_json(self._job(self._cancel(id_)))
        return None

    def when(self, after_s: int = 0) -> object:
        """Format a time as the vendor does."""
        return _CREATED_S + after_s

    def check_request(self, body: dict[str, Any], lines: list[dict[str, Any]]) -> str:
        """Check the body that creates a job and return its model. Raises `RefusedError`."""
        return str((lines[0].get("body") or {}).get("model", "")) if lines else ""

    def line_problem(self, line: dict[str, Any], job: Job) -> tuple[str, str] | None:
        """Return the code and message of a line's error."""
        if line.get("method") != "POST":
            return "invalid_method", "The method of a request must be POST."
        if line.get("url") != job.request["endpoint"]:
            return "mismatched_url", "The URL of a request does not match the batch's endpoint."
        if (line.get("body") or {}).get("model") != job.model:
            return "mismatched_model", "All requests of a batch must be for one model."
        return None

    def dims(self, line: dict[str, Any], job: Job) -> int:
        """Return the requested dimensions of a line's vectors."""
        return int(line["body"].get("dimensions") or self.double.dims)

    def more(self, job: Job) -> dict[str, Any]:
        """Return further fields of a job."""
        return {}

    def _upload(self, seen: Seen) -> StoredFile:
        found = {}
        for headers, data in parts(seen.headers.get("content-type", ""), seen.body):
            names = dict(re.findall(r'(\w+)="([^"]*)"', headers["content-disposition"]))
            found[names.get("name")] = (names.get("filename", ""), data)
        name, data = found.get("file", ("", b""))
        purpose = found.get("purpose", ("", b""))[1].decode()
        if purpose != "batch":
            message = f"'{purpose}' is not one of ['batch'] - 'purpose'"
            raise RefusedError(Fault.BAD_REQUEST, message=message)
        if not name.endswith(".jsonl"):
            message = "Invalid file format for Batch API. Must be .jsonl"
            raise RefusedError(Fault.BAD_REQUEST, message=message)
        return self.stored(StoredFile(self.new_id("file-"), name, data, purpose))

    def _found(self, id_: str) -> StoredFile:
        if id_ not in self.files:
            raise RefusedError(Fault.NOT_FOUND, message=f"No such File object: {id_}", param="id")
        return self.files[id_]

    def _files(self, seen: Seen) -> dict[str, Any]:
        newest = [file for file in self.files.values() if self._shown(file, seen)][::-1]
        if after := seen.query.get("after"):
            newest = newest[newest.index(self._found(after)) + 1 :]
        shown = newest[: int(seen.query.get("limit", "10000"))]
        return {
            "object": "list",
            "data": [self._file(file) for file in shown],
            "first_id": shown[0].id if shown else None,
            "last_id": shown[-1].id if shown else None,
            "has_more": len(newest) > len(shown),
        }

    def _shown(self, file: StoredFile, seen: Seen) -> bool:
        return seen.query.get("purpose", file.purpose) == file.purpose

    def _file(self, file: StoredFile) -> dict[str, Any]:
        return {
            "id": file.id,
            "object": "file",
            "bytes": len(file.data),
            "created_at": self.when(),
            "expires_at": self.when(30 * _DAY_S),
            "filename": file.name,
            "purpose": file.purpose,
            "status": "processed",
        }

    def _create(self, seen: Seen) -> Job:
        self.refuse_create()
        body = seen.body if isinstance(seen.body, dict) else {}
        for name, value in (("endpoint", "/v1/embeddings"), ("completion_window", self.window)):
            if body.get(name) != value:
                message = f"Invalid value: '{body.get(name)}'. Value must be '{value}'."
                raise RefusedError(Fault.BAD_REQUEST, message=message, param=name)
        file = self.files.get(body.get("input_file_id", ""))
        if file is None or file.purpose != "batch":
            message = f"Invalid input_file_id: {body.get('input_file_id')}"
            raise RefusedError(Fault.BAD_REQUEST, message=message, param="input_file_id")
        job = Job(self.new_id("batch_"), body, [], "")
        for number, line in enumerate(file.data.decode().removesuffix("\n").split("\n"), start=1):
            try:
                job.lines.append(dict(json.loads(line)))
            except (ValueError, TypeError):
                self._problem(job, "invalid_json_line", "This line is not valid JSON.", number)
        job.model = self.check_request(body, job.lines)
        self._check(job)
        self.jobs.append(job)
        return job

    def _check(self, job: Job) -> None:
        ids: set[object] = set()
        for number, line in enumerate(job.lines, start=1):
            id_ = line.get("custom_id")
            if not isinstance(id_, str) or not _CUSTOM_ID.fullmatch(id_):
                self._problem(job, "invalid_custom_id", f"Invalid custom_id: {id_!r}.", number)
            elif id_ in ids:
                self._problem(job, "duplicate_custom_id", f"{id_!r} is not unique.", number)
            elif problem := self.line_problem(line, job):
                self._problem(job, *problem, number)
            elif not _texts(line):
                self._problem(job, "invalid_request", "'input' is not valid.", number)
            ids.add(id_)
        if not job.lines:
            self._problem(job, "empty_file", "The input file is empty.", None)
        if sum(len(_texts(line)) for line in job.lines) > self.max_lines:
            message = f"The batch has more than {self.max_lines} inputs."
            self._problem(job, "too_many_tasks", message, None)
        if job.lines and job.model not in self.double.models:
            self._problem(job, "model_not_found", f"There is no model {job.model!r}.", None)

    def _problem(self, job: Job, code: str, message: str, line: int | None) -> None:
        job.problems.append({"code": code, "line": line, "message": message, "param": None})

    def _job_found(self, id_: str) -> Job:
        for job in self.jobs:
            if job.id == id_:
                return job
        raise RefusedError(Fault.NOT_FOUND, message=f"No batch found with id '{id_}'.", param="id")

    def _cancel(self, id_: str) -> Job:
        job = self._job_found(id_)
        if job.over:
            message = f"Cannot cancel a batch with status '{job.status}'."
            raise RefusedError(Fault.BAD_REQUEST, message=message)
        job.status = "cancelling"
        return job

    def _list(self, seen: Seen) -> dict[str, Any]:
        newest = self.jobs[::-1]
        if after := seen.query.get("after"):
            newest = newest[newest.index(self._job_found(after)) + 1 :]
        shown = newest[: int(seen.query.get("limit", "20"))]
        return {
            "object": "list",
            "data": [self._job(job) for job in shown],
            "first_id": shown[0].id if shown else None,
            "last_id": shown[-1].id if shown else None,
            "has_more": len(newest) > len(shown),
        }

    def _job(self, job: Job) -> dict[str, Any]:
        over = None if not job.over else self.when(60)
        failed = job.status == "failed"
        problems = job.problems or (
            [{"code": "failed", "line": None, "message": "The batch failed.", "param": None}]
        )
        return {
            "id": job.id,
            "object": "batch",
            "endpoint": job.request["endpoint"],
            "errors": {"object": "list", "data": problems} if failed else None,
            "input_file_id": job.request["input_file_id"],
            "completion_window": self.window,
            "status": job.status,
            "output_file_id": job.output.id if job.output else None,
            "error_file_id": job.errors.id if job.errors else None,
            "created_at": self.when(),
            "expires_at": self.when(_DAY_S),
            f"{job.status}_at": over,
            "request_counts": {
                "total": len(job.lines),
                "completed": len(job.lines) - len(job.failed) if job.output else 0,
                "failed": len(job.failed),
            },
            "metadata": job.request.get("metadata"),
            **self.more(job),
        }

    def _finish(self, job: Job) -> None:
        if job.status == "failed":
            return
        job.failed = self.failing(job, [line["custom_id"] for line in job.lines])
        good, bad, texts = [], [], []
        for line in job.lines[::-1] if self.reorder else job.lines:
            if line["custom_id"] in job.failed:
                bad.append(self._failure(line, job))
                continue
            good.append(self._success(line, job))
            texts += _texts(line)
        if good:
            job.output = self._written(job, "output", good)
            job.output.texts = texts
        if bad:
            job.errors = self._written(job, "error", bad)

    def _written(self, job: Job, kind: str, lines: list[dict[str, Any]]) -> StoredFile:
        data = "".join(json.dumps(line) + "\n" for line in lines).encode()
        file = StoredFile(self.new_id("file-"), f"{job.id}_{kind}.jsonl", data, "batch_output")
        self.files[file.id] = file
        return file

    def _success(self, line: dict[str, Any], job: Job) -> dict[str, Any]:
        texts, dims = _texts(line), self.dims(line, job)
        rows = [(i, embedding(text, dims)) for i, text in enumerate(texts)]
        body = self.double.embeddings(Asked(job.model, texts, dims), rows)
        response = {"status_code": 200, "request_id": self.new_id("req_"), "body": body}
        return self._result(line, response, None)

    def _failure(self, line: dict[str, Any], job: Job) -> dict[str, Any]:
        if job.status != "completed":
            message = f"This request was not executed: the batch is {job.status}."
            return self._result(line, None, {"code": f"batch_{job.status}", "message": message})
        refused = self.double.error(Fault.BAD_REQUEST, {"model": job.model, "index": 0})
        response = {
            "status_code": refused.status,
            "request_id": self.new_id("req_"),
            "body": json.loads(refused.body),
        }
        return self._result(line, response, None)

    def _result(self, line: dict[str, Any], response: object, error: object) -> dict[str, Any]:
        return {
            "id": self.new_id("batch_req_"),
            "custom_id": line["custom_id"],
            "response": response,
            "error": error,
        }


class VoyageBatches(OpenAiBatches):
    """Jobs whose model and input type are in `request_params`, for all lines together."""

    window = "12h"

    def when(self, after_s: int = 0) -> object:
        """Format a time as Voyage does: ISO 8601."""
        return datetime.datetime.fromtimestamp(_CREATED_S + after_s, datetime.UTC).isoformat()

    def check_request(self, body: dict[str, Any], lines: list[dict[str, Any]]) -> str:
        """Check the body that creates a job and return its model. Raises `RefusedError`."""
        given = body.get("request_params")
        if not isinstance(given, dict) or not isinstance(model := given.get("model"), str):
            message = "'request_params' must have a 'model'."
            raise RefusedError(Fault.BAD_REQUEST, message=message)
        if given.get("input_type") not in (None, "query", "document"):
            message = "Value of 'input_type' must be null, 'query' or 'document'."
            raise RefusedError(Fault.BAD_REQUEST, message=message)
        return model

    def line_problem(self, line: dict[str, Any], job: Job) -> tuple[str, str] | None:
        """Return the code and message of a line's error."""
        if line.keys() - {"custom_id", "body"} or set(line.get("body") or {}) != {"input"}:
            return "invalid_line", "A line has 'custom_id' and 'body' with 'input', nothing else."
        return None

    def dims(self, line: dict[str, Any], job: Job) -> int:
        """Return the requested dimensions of the vectors."""
        return int(job.request["request_params"].get("output_dimension") or self.double.dims)

    def more(self, job: Job) -> dict[str, Any]:
        """Return the parameters, which Voyage repeats."""
        return {"request_params": job.request["request_params"]}


def _texts(line: dict[str, Any]) -> list[str]:
    """Return the texts of a line, or none if its input is invalid."""
    body = line.get("body")
    given = body.get("input") if isinstance(body, dict) else None
    given = [given] if isinstance(given, str) else given
    valid = isinstance(given, list) and all(isinstance(text, str) and text for text in given)
    return list(given) if valid and given else []
