"""An index for words alone, for tests that need no vectors."""

from memoryd.identity import Identity
from memoryd.index.statements import DerivedTables
from memoryd.text.tokenize import TOKENIZER

IDENTITY = Identity(
    provider="none",
    model="fts-only",
    provider_key="",
    dims=None,
    max_input_bytes=8000,
    chunk_tokens=400,
    chunk_overlap=80,
    tokenizer=TOKENIZER,
)
LEGS = DerivedTables(IDENTITY, fts=True, vec=False)
