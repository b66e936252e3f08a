import json

from skillhub.formats.digest import Digest
from skillhub.model.lock import Signer
from skillhub.model.skill import Need, Skill

KEYS = [
    *("name", "source", "version", "digest", "tree", "size", "url", "path", "links", "scope", "state"),
    *("invocation", "managed", "signed_by", "trust", "patch", "own_name"),
    *("requires", "capabilities", "description"),
]
NEED = Need("env", "TOKEN", "a token", required=True, satisfied=False)


def test_json_of_a_skill_has_the_keys_of_the_contract():
    signer = Signer("key", Digest.of(b""), "acme")
    skill = Skill(name="a", path="/store/a", scope="project", state="enabled", signed_by=(signer,), requires=(NEED,))
    shown = json.loads(json.dumps(skill.to_json()))
    assert list(shown) == KEYS
    assert shown["trust"] == "signed"
    assert shown["signed_by"] == [{"kind": "key", "identity": "acme", "fingerprint": Digest.of(b"")}]
    assert list(shown["requires"][0]) == ["kind", "name", "description", "required", "satisfied"]


def test_skill_without_a_signer_is_unsigned():
    skill = Skill(name="a", path=None, scope="user", state="disabled", managed=False)
    shown = skill.to_json()
    assert (shown["trust"], shown["signed_by"], shown["tree"]) == ("unsigned", [], None)


def test_need_is_open_while_required_unmet_and_not_waived():
    for required in (True, False):
        for satisfied in (True, False):
            for waived in (True, False):
                need = Need("mcp", "x", "", required, satisfied, waived)
                assert need.open == (required and not satisfied and not waived)
    assert NEED.spell() == "env:TOKEN"
