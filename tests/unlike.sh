#!/bin/sh
# Runs a command as on the machine of a user with settings of their own, which no test may depend on.
set -eu
export HOME; HOME="$(mktemp -d)/home"
mkdir -p "$HOME/hooks" "$HOME/folder"
ln -s folder "$HOME/link"
printf '#!/bin/sh\nexit 1\n' > "$HOME/hooks/pre-commit"
chmod +x "$HOME/hooks/pre-commit"
git config --global core.hooksPath "$HOME/hooks"
git config --global core.autocrlf true
git config --global commit.gpgsign true
git config --global init.defaultBranch trunk
umask 077
unset NO_COLOR
for proxy in http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY; do export $proxy=http://127.0.0.1:9; done
for folder in CONFIG CACHE DATA STATE; do export XDG_${folder}_HOME="$HOME/xdg"; done
export LC_ALL=C TMPDIR="$HOME/link" COLUMNS=41 FORCE_COLOR=1 TERM=dumb
export CLAUDECODE=1 CODEX_HOME="$HOME/codex" CURSOR_TRACE_ID=1 SKILLHUB_HOME="$HOME/skillhub" GITHUB_TOKEN=none
exec "$@"
