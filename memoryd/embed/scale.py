"""Scale of a model that nobody has measured: reference questions and the passages that answer them.

Models differ in the cosines that they give to unrelated texts and to answers. Both are measured
once in the life of a daemon, with the same texts as for the bundled model, before the first query
of a model without a known scale is compared. The texts are constants and say nothing about anybody.
"""

import asyncio
import logging

import numpy as np

from memoryd.embed.local import CALIBRATION
from memoryd.embed.provider import Calibration, FloatMatrix, ProviderError, in_batches, utf8_bytes
from memoryd.embed.provider_client import ProviderClient

log = logging.getLogger(__name__)

REFERENCE = (
    ("when is the dentist appointment", "Dentist on Tuesday at 9:40, bring the insurance card."),
    ("which port does the database use", "Postgres listens on port 5433 since the upgrade."),
    (
        "how do I reset the router",
        "Hold the small button of the router for ten seconds to reset it.",
    ),
    ("what is Anna allergic to", "Anna can't eat hazelnuts or sesame; she carries an injector."),
    ("where did we park the car", "The car is on level 3 of the garage, row F, near the lift."),
    ("why did the deployment fail", "The release was rolled back because a migration timed out."),
    ("who waters the plants in summer", "In July and August the neighbour looks after the plants."),
    ("how long does the bread bake", "Bake the loaf for 45 minutes, the first 20 with the lid on."),
    ("Wann kommt der Handwerker?", "Der Klempner kommt am Donnerstag zwischen acht und zehn."),
    ("¿Cuánto pagamos de alquiler?", "El alquiler es de 940 euros al mes, con la calefacción."),
    ("Où est la clé de la cave ?", "La clé de la cave est dans le tiroir sous le micro-ondes."),
    ("Toplantı hangi odada?", "Haftalık toplantı ikinci kattaki küçük odada yapılıyor."),
    ("Какой пароль от гостевой сети?", "Гостевая сеть называется Лилия, пароль на холодильнике."),
    ("会议什么时候开始", "每周一上午十点开会，地点在三楼会议室。"),
    ("犬の予防接種はいつですか", "犬のワクチンは十月に受けた。次は来年の春。"),
    ("자전거는 어디서 고쳐요?", "자전거는 시장 옆 수리점에서 고친다. 일요일은 쉰다."),
)
"""Questions, each with a passage that answers it and no other one."""
BUNDLED_LOW, BUNDLED_HIGH = 0.027, 0.371
"""Mean cosines of the bundled model: of a question and another one's passage, and of a pair."""
MEASURE_S = 5.0
"""Maximum seconds that a query waits for the measurement."""
LEAST_SPREAD = 3.0
"""Least difference of both means, in standard errors, for a scale to be believed."""


class Scale:
    """Calibration of a model's cosines; `known` is None until it is measured."""

    def __init__(self, calls: ProviderClient, known: Calibration | None) -> None:
        self._calls = calls
        self._known = known
        self._measuring = asyncio.Lock()

    def apply(self, cosine: float) -> float:
        """Map a cosine to 0 for unrelated and 1 for equal texts."""
        return (self._known or Calibration()).apply(cosine)

    async def measure(self) -> None:
        """Measure the scale if it is unknown. A failure is logged; the next call tries again."""
        if self._known is not None:
            return
        try:
            async with self._measuring, asyncio.timeout(MEASURE_S):
                if self._known is None:
                    self._known = await self._measure()
        except (ProviderError, TimeoutError) as error:
            why = str(error) or "the provider took too long"
            log.warning("the scale of the model's cosines is not measured yet: %s", why)

    async def _measure(self) -> Calibration:
        texts = [text for pair in REFERENCE for text in pair]
        provider = self._calls.provider
        batches = in_batches(
            texts, utf8_bytes, max_items=provider.batch_items, max_bytes=provider.batch_bytes
        )
        rows = [(await self._calls.documents(batch))[0] for batch in batches]
        return calibration(np.concatenate(rows))


def calibration(rows: FloatMatrix) -> Calibration:
    """Return the calibration of a model from unit vectors of the texts of `REFERENCE`, in order.

    It maps the model's two means to those of the bundled model, on whose scale all constants of the
    search were measured. A model that can't tell the pairs from others gets the plain cosine.
    """
    low, high, error = means(rows)
    if high - low < LEAST_SPREAD * error:
        return Calibration()
    unit = (high - low) / (BUNDLED_HIGH - BUNDLED_LOW)
    return Calibration(
        low + unit * (CALIBRATION.low - BUNDLED_LOW), low + unit * (CALIBRATION.high - BUNDLED_LOW)
    )


def means(rows: FloatMatrix) -> tuple[float, float, float]:
    """Return the mean cosine of unrelated texts, that of pairs, and the latter's standard error."""
    cosines = rows[::2] @ rows[1::2].T
    pairs = np.diagonal(cosines)
    others = cosines[~np.eye(len(pairs), dtype=bool)]
    error = float(np.std(pairs)) / len(pairs) ** 0.5
    return float(others.mean()), float(pairs.mean()), error
