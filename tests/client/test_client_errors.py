import pytest

from memoryd_client import errors
from memoryd_client.wire.protocol import Error, ErrorCode


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.BAD_REQUEST, errors.BadRequestError),
        (ErrorCode.UNKNOWN_OP, errors.UnknownOpError),
        (ErrorCode.NOT_FOUND, errors.NotFoundError),
        (ErrorCode.UNKNOWN_AGENT, errors.UnknownAgentError),
        (ErrorCode.DENIED, errors.DeniedError),
        (ErrorCode.BUSY, errors.BusyError),
        (ErrorCode.UNAVAILABLE, errors.UnavailableError),
        (ErrorCode.CANCELLED, errors.CancelledRequestError),
        (ErrorCode.DEADLINE, errors.DeadlineError),
        (ErrorCode.FRAME_TOO_LARGE, errors.TooLargeError),
        (ErrorCode.SHUTTING_DOWN, errors.ShuttingDownError),
        (ErrorCode.UNSUPPORTED_PROTOCOL, errors.ProtocolMismatchError),
        (ErrorCode.INTERNAL, errors.RequestError),
        (ErrorCode.DUPLICATE_ID, errors.RequestError),
        ("of_a_later_version", errors.RequestError),
    ],
)
def test_every_code_has_its_class(code: str, kind: type[errors.MemorydError]) -> None:
    error = errors.from_frame(Error(code, "no", 1))
    assert type(error) is kind
    assert error.code == code


def test_nothing_of_the_frame_is_lost() -> None:
    frame = Error("busy", "too much", 1, hint="wait", retryable=True, retry_after_ms=250)
    error = errors.from_frame(frame)
    assert isinstance(error, errors.RequestError)
    assert (error.message, error.hint, error.retryable, error.retry_after_ms) == (
        "too much",
        "wait",
        True,
        250,
    )
    assert str(error) == "too much (wait)"


def test_the_daemons_word_on_retrying_counts() -> None:
    assert not errors.from_frame(Error("busy", "no", 1, retryable=False)).retryable


def test_a_deadline_is_a_timeout_too() -> None:
    assert issubclass(errors.DeadlineError, errors.RequestTimeoutError)


def test_all_errors_have_one_root() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    own = [kind for kind in kinds if kind.__module__ == errors.__name__]
    assert len(own) > 10
    assert all(issubclass(kind, errors.MemorydError) for kind in own)
