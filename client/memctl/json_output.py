"""JSON output of `memctl`: protocol bodies under the reference's camelCase names."""

import msgspec
from msgspec import Struct

from memoryd_client.errors import MemorydError, UnavailableError
from memoryd_client.schema.agents import AgentSummary
from memoryd_client.schema.facts import Fact
from memoryd_client.schema.memory import GetResult
from memoryd_client.schema.search import Hit
from memoryd_client.schema.status import StatusResult
from memoryd_client.shared.style import printable_json
from memoryd_client.wire.requests import encodable


def answer(result: Struct | list[StatusResult | AgentSummary]) -> object:
    """Return the JSON value of a result."""
    return [_agent(one) for one in result] if isinstance(result, list) else _value(result)


def answer_list(results: list[Fact]) -> object:
    """Return the JSON value of a list of bodies."""
    return [_value(result) for result in results]


def _agent(one: StatusResult | AgentSummary) -> dict[str, object]:
    if isinstance(one, StatusResult):
        status = _fields(one)
        return {"agentId": status.pop("agentId"), "status": status}
    reason = UnavailableError(one.reason or f"the agent is {one.state}")
    return {"agentId": one.agent, **failure(reason)}


def failure(error: MemorydError) -> dict[str, object]:
    """Return the JSON value of an error."""
    return {
        "error": {
            "code": error.code,
            "message": encodable(error.message),
            "hint": encodable(error.hint),
            "retryable": error.retryable,
        }
    }


def text(value: object) -> str:
    """Return a JSON value as indented text that ends with a newline."""
    formatted = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return printable_json(formatted) + "\n"


def line(value: object) -> str:
    """Return a JSON value on one line, for streamed output."""
    return printable_json(msgspec.json.encode(value).decode()) + "\n"


def camel(name: str) -> str:
    """Return a snake_case name in camelCase."""
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


def _value(value: object) -> object:
    """Convert structs at any depth; leave plain dicts, which are user data, unchanged."""
    if isinstance(value, GetResult):
        return _get(value)
    if isinstance(value, Hit):
        optional = ("vectorScore", "textScore", "explanation", "highlights", "confidence", "goneAt")
        stated = ("conversation", "observed", "supersedes")
        return {
            k: v
            for k, v in _fields(value).items()
            if not ((v is None and k in optional) or (v == "" and k in stated))
        }
    if isinstance(value, Struct):
        return _fields(value)
    if isinstance(value, list):
        return [_value(element) for element in value]
    # A file name may not be valid UTF-8.
    return encodable(value) if isinstance(value, str) else value


def _fields(value: Struct) -> dict[str, object]:
    return {camel(name): _value(getattr(value, name)) for name in value.__struct_fields__}


def _get(result: GetResult) -> dict[str, object]:
    values: dict[str, object] = {
        "text": result.text,
        "path": result.path,
        "from": result.start_line,
        "lines": result.lines,
        "totalLines": result.total_lines,
    }
    if result.truncated:
        values["truncated"] = True
    if result.next_from is not None:
        values["nextFrom"] = result.next_from
    if result.gone_at is not None:
        values["goneAt"] = result.gone_at
    return values
