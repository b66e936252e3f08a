"""The plugins that a repository lists, and the folders of their skills."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from skillhub.model.layout import join, plugin_folders
from skillhub.model.marketplace import Declined, Elsewhere, Here, Plugin
from skillhub.world.survey import Survey

_DEFAULT = "skills"


@dataclass(frozen=True, slots=True)
class Rooted:
    """A plugin and its folder in a snapshot.

    Attributes:
        skills: Where the marketplace says that its skills are, relative to ``root``; None if it does not say.
    """

    name: str
    root: str
    skills: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """What the marketplaces of a repository list.

    Attributes:
        here: The plugins that are in it.
        elsewhere: Those in other repositories; their ``root`` is a folder there.
        warnings: What was declined, and why.
    """

    here: Sequence[Rooted]
    elsewhere: Sequence[tuple[Rooted, Elsewhere]]
    warnings: tuple[str, ...]


def listed_plugins(survey: Survey, top: str) -> Listed:
    """Return the plugins that the marketplaces in ``top`` list, or the one that ``top`` is."""
    plugins = dict(survey.plugins)
    own = survey.manifests.get(top)
    if own is not None and own.name is not None and not plugins:
        plugins[own.name] = Plugin(own.name, Here(""))
    here, elsewhere, warnings = [], [], list(survey.warnings)
    for each in plugins.values():
        match each.source:
            case Here(path):
                here.append(Rooted(each.name, join(top, path), each.skills))
            case Elsewhere(_, _, path):
                elsewhere.append((Rooted(each.name, path, each.skills), each.source))
            case Declined(reason):
                warnings.append(f"plugin {each.name} was left out: {reason}")
    return Listed(here, elsewhere, tuple(warnings))


def plugin_skills(survey: Survey, plugins: Iterable[Rooted]) -> Mapping[str, str]:
    """Return the folders of the skills of these plugins; one that several have belongs to the first.

    A plugin's own manifest says where skills are besides ``skills``; what a marketplace says goes before it.
    """
    owners: dict[str, str] = {}
    for each in plugins:
        places = each.skills
        if places is None:
            own = survey.manifests.get(each.root)
            places = (*(own.skills if own else ()), _DEFAULT)
        for folder in plugin_folders(survey.heads, each.root, places):
            owners.setdefault(folder, each.name)
    return owners
