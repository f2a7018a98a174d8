"""A keyword index for tests that need no vectors."""

from identities import KEYWORDS_ONLY

from memoryd.index.statements import DerivedTables

IDENTITY = KEYWORDS_ONLY
LEGS = DerivedTables(IDENTITY, fts=True, vec=False)
