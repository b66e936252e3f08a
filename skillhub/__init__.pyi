"""The public names: type checkers read them here, and ``__init__.py`` imports each at its first use."""

from skillhub.answers.reading import AuditAnswer as AuditAnswer
from skillhub.answers.reading import CatalogAnswer as CatalogAnswer
from skillhub.answers.reading import LoadAnswer as LoadAnswer
from skillhub.answers.reading import SearchAnswer as SearchAnswer
from skillhub.answers.reading import ShowAnswer as ShowAnswer
from skillhub.answers.skills import ListAnswer as ListAnswer
from skillhub.answers.skills import OutcomeAnswer as OutcomeAnswer
from skillhub.answers.skills import VerifyAnswer as VerifyAnswer
from skillhub.api import OpenProject as OpenProject
from skillhub.api import open_project as open_project
from skillhub.command.ports import Options as Options
from skillhub.errors import FormatError as FormatError
from skillhub.errors import Refused as Refused
from skillhub.errors import SecurityError as SecurityError
from skillhub.errors import SkillhubError as SkillhubError
from skillhub.errors import SourceError as SourceError
from skillhub.errors import StateError as StateError
from skillhub.errors import UsageError as UsageError
from skillhub.formats.digest import Digest as Digest
from skillhub.model.question import Answer as Answer
from skillhub.model.question import Question as Question
from skillhub.model.tree import Tree as Tree

__version__: str
