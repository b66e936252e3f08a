"""Words to a model that no honest skill needs."""

from __future__ import annotations

from typing import Final

from skillhub.scan.rule import look, pattern

INSTRUCTIONS: Final = (
    pattern(
        "SH301",
        tuple(
            look(
                f"{verb} / previous prior earlier above preceding existing system"
                " / instruction instructions prompt prompts rule rules guideline guidelines message messages",
                rb"\b" + verb.encode() + rb"\s{1,4}(?:(?:all|any|of|the|your|my)\s{1,4}){0,3}"
                rb"(?:previous|prior|earlier|above|preceding|existing|system)\s{1,4}(?:\w{1,16}\s{1,4})?"
                rb"(?:instruction|prompt|rule|guideline|message)",
            )
            for verb in ("ignore", "disregard", "forget", "override")  # letters that are fixed are found fast
        ),
    ),
    pattern(
        "SH302",
        tuple(
            look(
                f"tell telling inform informing alert alerting notify notifying warn warning / user users / {word}",
                rb"\b" + begin + rb"\s(?:\w{1,12}\s)?"
                rb"(?:tell|inform|alert|notify|warn)(?:ing)?\s(?:the\suser|users)\b(?!\sto\b)",
            )
            for word, begin in (("not", rb"do\snot"), ("don", b"don't"), ("never", b"never"), ("without", b"without"))
        ),
    ),
    pattern(
        "SH303",
        (
            look("dangerously bypasspermissions", rb"--(?:allow-)?dangerously-[a-z-]{1,40}|\bbypasspermissions\b"),
            look(
                "yolo",
                rb"\b(?:claude|gemini|codex|copilot|qwen|cursor-agent|opencode|crush|amp|aider|kimi|goose|droid|grok)\b(?=[\s\"'`,])",
                rb"(?:^|[\s`\"'])--yolo\b",
            ),
        ),
    ),
)
