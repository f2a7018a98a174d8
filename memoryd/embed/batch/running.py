"""A batch job on its way, and how it is shown."""

from dataclasses import dataclass

from memoryd.messages import BatchJob


@dataclass(slots=True, eq=False)
class Running:
    """A job on its way: when it is looked at next, how long after that again, when it was made."""

    job: BatchJob
    shown: str
    pause_s: float
    made_s: float
    due_s: float = float("inf")


@dataclass(frozen=True, slots=True)
class JobStats:
    """One job: the provider's id of it (ours, until it has one), its state, size and age."""

    id: str
    state: str
    texts: int
    age_s: float
