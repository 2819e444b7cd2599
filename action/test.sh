#!/usr/bin/env bash
# Runs the action's entry script as GitHub does: with event files, the files it writes to, a git repository, and a
# stand-in for the API on loopback. A stand-in plays federate; `FEDERATE_BIN` (or target/debug/federate) is then used
# for one run from end to end.
#
#   action/test.sh [PART…]     all parts, or those named (action/test/*.sh)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
binary=${FEDERATE_BIN:-${here%/*}/target/debug/federate}
[ "${binary#/}" != "$binary" ] || binary=$PWD/$binary
# Nothing of the machine's own configuration plays a part.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
unset "${!GITHUB_@}" "${!INPUT_@}" "${!GIT_AUTHOR_@}" "${!GIT_COMMITTER_@}"

# shellcheck source=action/test/lib/setup.sh
. "$here/test/lib/setup.sh"
# shellcheck source=action/test/lib/expect.sh
. "$here/test/lib/expect.sh"
start_api
make_repository

if [ "$#" -eq 0 ]; then
  set -- definition commands annotations pull_request comment push deletions hostile install programs formula wait binary samples pinned
fi
for part in "$@"; do
  # shellcheck source=/dev/null
  . "$here/test/$part.sh"
  echo "action/test/$part.sh: ok"
done
