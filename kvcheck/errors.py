"""The exceptions of kvcheck.

KvcheckError                  something kvcheck says in one line and exits 2 for
├── MatrixError               a matrix file is missing, malformed, or empty
├── ContractError             a promise is of the wrong type, or one that no kernel can keep
├── TargetError               a target is unknown, cannot be loaded, or is declared wrongly
├── SelectionError            a command-line value selects nothing or cannot be read
├── ReportError               a report file cannot be read or written
└── FormatError               a number format or rounding rule that kvcheck does not know
Refused                       raised by a target: "I do not take this input", never a fault
"""

from __future__ import annotations


class KvcheckError(Exception):
    """Bad usage or input. Its text is one line: what is wrong, where, and what was expected."""


class MatrixError(KvcheckError):
    """A matrix file is missing, malformed, or empty."""


class ContractError(KvcheckError, ValueError):
    """A part of a contract, form or limit is of the wrong type, or is one that no kernel can have.

    A ValueError too: read from a file, msgspec tells it with its place.
    """


class TargetError(KvcheckError):
    """A target is unknown, cannot be loaded, or its decorator was given something it does not take."""


class SelectionError(KvcheckError):
    """An option selects nothing, or its value cannot be read."""


class ReportError(KvcheckError):
    """A report file cannot be read or written."""


class FormatError(KvcheckError):
    """A number format, rounding, or overflow policy that kvcheck does not know."""


class Refused(Exception):  # noqa: N818 - the word users write in their adapters: `raise kvcheck.Refused(...)`
    """Raised by a target that does not take an input. The case is then `refused`, if no buffer was changed."""
