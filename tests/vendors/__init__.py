"""Local HTTP doubles of the embedding vendors: their protocols, limits, errors and faults."""

from vendors.double import Double, Seen
from vendors.faults import TRANSIENT, AnyFault, Fault, RateLimit
from vendors.gemini_batches import STATE_STYLES, StateStyle
from vendors.gemini_double import GeminiDouble
from vendors.mistral_double import MistralDouble
from vendors.ollama_double import OllamaDouble
from vendors.openai_double import OpenAiDouble
from vendors.vectors import embedding
from vendors.voyage_double import VoyageDouble

__all__ = [
    "STATE_STYLES",
    "TRANSIENT",
    "AnyFault",
    "Double",
    "Fault",
    "GeminiDouble",
    "MistralDouble",
    "OllamaDouble",
    "OpenAiDouble",
    "RateLimit",
    "Seen",
    "StateStyle",
    "VoyageDouble",
    "embedding",
]
