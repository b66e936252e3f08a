"""The bench's registry of a million skills has the form of one by operators' commands; here with few skills."""

from skillhub.net.fetch import FolderFetcher
from skillhub.registry.build import add
from skillhub.registry.check import _in_parts
from skillhub.registry.operator import RegistryDir, Signing
from skillhub.sources.registry_client import TufRegistry
from tests.bench.whole_registry import OWN, make
from tests.support.registry import now, write_skill


def test_a_registry_made_by_several_processes_is_a_valid_registry(tmp_path):
    folder = str(tmp_path / "hub")
    make(folder, 100)
    hub = RegistryDir(folder)
    fetcher = FolderFetcher(hub.site, "folder:")

    def opened(name):
        return TufRegistry.open("folder:", hub.served("metadata/1.root.json"), fetcher, str(tmp_path / name))

    registry = opened("before")
    assert len(_in_parts(registry, registry.first_part(), fetcher).skills) == 100
    registry.artifact(registry.release_index(OWN[:1]).releases(OWN[0])[0])
    add(folder, [write_skill(tmp_path, OWN[0], "1.1.0")], Signing(now=now()))
    registry = opened("after")
    assert registry.listing(OWN[0]).releases(OWN[0])[0].version == "1.1.0"
    assert len(_in_parts(registry, registry.first_part(), fetcher).skills) == 100
