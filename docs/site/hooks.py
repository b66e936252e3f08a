"""The site besides MkDocs: pages from outside docs/, links and anchors as GitHub has them, nothing from elsewhere."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File
from pymdownx.slugs import slugify

REPO = Path(__file__).resolve().parents[2]
DOCS = REPO / "docs"
SOURCE = "https://github.com/skillhub/skillhub/blob/main/"
# Pages that stand at the top of the repository, where people look for them, and what they are called in the site.
OUTSIDE = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}
OUTSIDE |= {"CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s#]*)((?:#[^)\s]*)?\))")
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LOADS = re.compile(
    r"<(?!a\b)[^>]*\b(?:src|srcset|href|data|action)=[\"']?(?:https?:)?//[^>]*>|url\([\"']?(?:https?:)?//"
)


def on_config(config: Any) -> Any:  # noqa: ANN401 - MkDocs' own
    """Make anchors as GitHub makes them, and name each page of a folder that ``nav`` has a pattern for."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slugify(case="lower")
    for section in config.nav:
        for _, rows in section.items():
            for row in rows if isinstance(rows, list) else ():
                for title, target in row.items():
                    if isinstance(target, str) and "*" in target:
                        row[title] = sorted(
                            path.relative_to(REPO / "docs").as_posix() for path in (REPO / "docs").glob(target)
                        )
    return config


def on_files(files: Any, config: Any) -> Any:  # noqa: ANN401
    """Add the pages that stand outside docs/."""
    for path, name in OUTSIDE.items():
        files.append(File.generated(config, name, content=(REPO / path).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:  # noqa: ANN401
    """Lead links to where a page stands in the site, and those to code to its repository."""
    del config
    name = page.file.src_uri
    path = next((path for path, other in OUTSIDE.items() if other == name), f"docs/{name}")

    def led(link: re.Match[str]) -> str:
        before, target, after = link.groups()
        if not target or ":" in target:
            return link[0]
        found = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        inside = OUTSIDE.get(found) or (found.removeprefix("docs/") if found.startswith("docs/") else None)
        page = files.get_file_from_path(inside) if inside else None
        if page is not None and page.inclusion.is_included():
            return f"{before}{posixpath.relpath(inside, posixpath.dirname(name) or '.')}{after}"
        if not (REPO / found).exists():
            raise PluginError(f"{path}: a link leads to {target}, which is not there")
        return f"{before}{SOURCE}{found}{after}"

    parts = FENCE.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(led, part) for part in parts)


def on_post_build(config: Any) -> None:  # noqa: ANN401
    """Refuse a page or a style that has a browser load something from another server."""
    for path in sorted(Path(config.site_dir).rglob("*")):
        if path.suffix in (".html", ".css") and (found := LOADS.search(path.read_text(encoding="utf-8"))):
            raise PluginError(f"{path.name} loads from elsewhere: {found[0]}")
