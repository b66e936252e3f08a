"""A project and a home for tests of agents' config files."""

from skillhub.world import mcp


class Place:
    """A project, a home and a lock file."""

    def __init__(self, folder):
        self.project, self.home = folder / "project", folder / "home"
        self.project.mkdir()
        self.home.mkdir()
        self.lock = str(folder / "state/mcp.lock")

    def file(self, agent, scope="project", **environ):
        return mcp.config_file(agent, scope, str(self.project), str(self.home), environ)

    def everything(self):
        return sorted(str(path.relative_to(self.project)) for path in self.project.rglob("*"))
