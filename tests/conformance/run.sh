#!/bin/sh
# TUF's own conformance suite against our client, which needs its own place: it pins other versions than ours.
#
#   sh tests/conformance/run.sh [FOLDER] [PYTEST OPTION...]
#
# FOLDER (.venv-conformance) is made on first use. SKILLHUB_PYTHON is the Python that has skillhub, SUITE where the
# suite is cloned from. The program `faketime` must be there (apt-get install faketime; brew install libfaketime).
set -eu
place=${1:-.venv-conformance}
test $# -eq 0 || shift
suite=${SUITE:-https://github.com/theupdateframework/tuf-conformance}
commit=eec841c186f81f2d9d8d30460c7e7deefa615f9e  # after v2.4.0

command -v faketime >/dev/null || { echo "tuf-conformance needs the program faketime" >&2; exit 2; }
if ! test -e "$place/.ready"; then
    echo "setting up $place, once; later runs need no network"
    "${PYTHON:-python3.11}" -I -m venv --clear "$place"
    git clone --quiet "$suite" "$place/suite"
    git -C "$place/suite" checkout --quiet "$commit"
    "$place/bin/python" -I -m pip install --quiet --disable-pip-version-check -e "$place/suite"
    echo '*' > "$place/.gitignore"
    touch "$place/.ready"
fi

# The suite splits its entry point at spaces, so it gets one without.
entry=$(mktemp -d)
trap 'rm -rf "$entry"' EXIT
cat > "$entry/skillhub" <<EOF
#!/bin/sh
PYTHONPATH='$PWD' exec '${SKILLHUB_PYTHON:-$PWD/.venv/bin/python}' '$PWD/tests/conformance/client.py' "\$@"
EOF
chmod +x "$entry/skillhub"
"$place/bin/python" -P -m pytest "$place/suite/tuf_conformance" --entrypoint "$entry/skillhub" -q "$@"
