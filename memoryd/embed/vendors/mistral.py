"""Mistral's embeddings.

https://docs.mistral.ai/api/endpoint/embeddings
"""

from memoryd.embed.vendors.credentials import KEY_NAMES
from memoryd.embed.vendors.openai import OpenAiApi


class MistralApi(OpenAiApi):
    """The protocol of OpenAI without input types."""

    name = "mistral"
    default_model = "mistral-embed"
    default_url = "https://api.mistral.ai/v1"
    url_name = None
    key_names = KEY_NAMES["mistral"]
    max_items = 512
    dimensions_field = "output_dimension"
    has_input_types = False
