"""``sync``: warnings about skills that it reads again from their source."""

import shutil


def test_sync_warns_about_a_skill_read_from_outside_of_the_project(shell):
    path = shell.skill("beside/plain")
    shell.run("install", path, "-y", "--allow-unsigned")
    assert "warning" not in shell.run("sync").err
    shell.run("cache", "gc")
    for each in (shell.hub / "data" / "store").iterdir():
        each.rename(shell.folder / each.name)
    for each in (".agents", ".claude"):  # without copies, which sync would store again
        shutil.rmtree(shell.project / each, ignore_errors=True)
    done = shell.run("sync")
    assert done.status == 0
    assert f"warning: plain: {path} is outside the project" in done.err.replace("\n", " ")
