"""Shares the places of an answer between notes and transcripts. Pure."""

from memoryd.search.fuse import Candidate, select


def balance(
    notes: list[Candidate],
    sessions: list[Candidate],
    *,
    min_score: float,
    max_results: int,
    fill: bool = True,
) -> list[Candidate]:
    """Choose from both, the best first; transcripts have half of the places, rounded up.

    More only where notes with a score of `min_score` leave places free: many transcripts say the
    same thing, and a note is what was worth writing down. Then come keyword hits below the score,
    notes first, as `select` takes them if it is to `fill`.
    """
    passed = [(c, False) for c in notes if c.settled >= min_score]
    passed += [(c, True) for c in sessions if c.settled >= min_score]
    passed.sort(key=lambda pair: (-pair[0].score, pair[1], pair[0].row_id))
    limit = (max_results + 1) // 2
    chosen: list[Candidate] = []
    spare: list[Candidate] = []
    for candidate, is_session in passed:
        if not is_session or limit > 0:
            chosen.append(candidate)
            limit -= is_session
        else:
            spare.append(candidate)
    chosen = sorted(
        [*chosen[:max_results], *spare[: max(0, max_results - len(chosen))]],
        key=lambda candidate: -candidate.score,
    )
    for group in (notes, sessions) if fill else ():
        below = [c for c in group if c.settled < min_score]
        room = max_results - len(chosen)
        chosen += select(below, min_score=min_score, max_results=room) if room > 0 else []
    return chosen
