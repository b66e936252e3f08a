"""A project and a home for tests of agents' config files."""

import os

from skillhub.disk.home import Home
from skillhub.project import mcp_config
from skillhub.project.project import Project


def owner(project):
    """Return the project in this folder, of a user whose state is beside it."""
    return Project(project, "project", Home.of({"SKILLHUB_HOME": os.path.join(project, "..", "state")}))


class Place:
    """A project and a home."""

    def __init__(self, folder):
        self.project, self.home = folder / "project", folder / "home"
        self.project.mkdir()
        self.home.mkdir()
        self.owner = owner(str(self.project))

    def file(self, agent, scope="project", **environ):
        return mcp_config.config_file(agent, scope, str(self.project), str(self.home), environ)

    def everything(self):
        return sorted(str(path.relative_to(self.project)) for path in self.project.rglob("*"))
