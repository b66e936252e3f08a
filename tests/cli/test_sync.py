"""``sync``: what it tells of skills that it had to get again."""

import shutil


def test_what_is_odd_about_a_skill_that_was_had_again_is_told(shell):
    path = shell.skill("beside/plain")
    shell.run("install", path, "-y", "--allow-unsigned")
    assert "warning" not in shell.run("sync").err
    shell.run("cache", "gc")
    for each in (shell.hub / "data" / "store").iterdir():
        each.rename(shell.folder / each.name)
    for each in (".agents", ".claude"):  # else what is there would be put back into the store
        shutil.rmtree(shell.project / each, ignore_errors=True)
    done = shell.run("sync")
    assert done.status == 0
    assert f"warning: plain: {path} is outside the project" in done.err.replace("\n", " ")
