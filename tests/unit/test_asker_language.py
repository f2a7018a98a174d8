"""Results in the language of the query come before near-equals in others."""

from memoryd.search.asker_language import asker_first
from memoryd.search.fuse import Candidate, by_evidence
from memoryd.text.language import language_of

TEXTS = {
    1: "The key of the cellar is in the drawer under the microwave, and we have another one.",
    2: "Der Schlüssel für den Keller ist in der Schublade unter der Mikrowelle, und wir haben noch"
    " einen.",
    3: "La llave del sótano está en el cajón que hay debajo del microondas, y tenemos otra.",
}


def found(row: int, score: float) -> Candidate:
    made = by_evidence(row, None, None, vector_score=None)
    return made._replace(score=score, unaged_score=score)


def order(candidates: list[Candidate], query: str) -> list[int]:
    def known(row: int) -> str:
        return language_of(TEXTS[row])

    after = asker_first(candidates, known, lambda row: None, query)
    assert asker_first(candidates, known, known, query) == after
    assert [c.score for c in after] == [c.score for c in candidates]
    return [c.row_id for c in after]


def test_near_equals_in_the_language_of_the_query_come_first() -> None:
    near = [found(1, 0.70), found(2, 0.69), found(3, 0.69)]
    assert order(near, "wo ist der Schlüssel für den Keller") == [2, 1, 3]
    assert order(near, "¿dónde está la llave del sótano?") == [3, 1, 2]
    assert order(near, "where is the key of the cellar") == [1, 2, 3]


def test_a_better_result_in_another_language_stays_first() -> None:
    far = [found(1, 0.80), found(2, 0.60), found(3, 0.60)]
    assert order(far, "wo ist der Schlüssel für den Keller") == [1, 2, 3]


def test_a_query_without_a_known_language_changes_nothing() -> None:
    assert order([found(1, 0.70), found(2, 0.69)], "Fernanda") == [1, 2]
    assert order([found(1, 0.70)], "wo ist der Schlüssel") == [1]
