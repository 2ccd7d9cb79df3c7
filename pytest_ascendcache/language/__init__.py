"""What users read, in English and in Chinese: one catalogue, and nothing else of the package.

Fixed texts (headings, verdicts, kinds of harm) are looked up by key. Reasons and errors are made
in English wherever they arise, so that records stay comparable; :func:`translated` recognises
their fixed parts when they are shown and leaves names, numbers and paths as they are.
"""

from pytest_ascendcache.language.catalogue import (
    Language,
    preferred_language,
    templates,
    text,
    texts,
    translated,
)

__all__ = [
    "Language",
    "preferred_language",
    "templates",
    "text",
    "texts",
    "translated",
]
