#!/bin/sh
# The reference of OpenSSF Model Signing, in a virtual environment of its own: it is large, and so are its needs.
set -eu
venv=${1:-.venv-interop}
test -e "$venv/.ready" && exit 0
echo "setting up $venv, once; later runs need no network"
"${PYTHON:-python3.11}" -m venv --clear "$venv"
# model-signing 1.1.1 imports pyopenssl and does not say so.
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check 'model-signing>=1.1.1' 'pyopenssl>=25'
echo '*' > "$venv/.gitignore"
touch "$venv/.ready"
