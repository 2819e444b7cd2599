#!/usr/bin/env bash
# Puts the programs that build charts and kustomizations into a folder, for images. A machine for which none is pinned gets none.
#
#   programs.sh FOLDER
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=action/lib/log.sh
. "$here/lib/log.sh"
# shellcheck source=action/lib/install.sh
. "$here/lib/install.sh"
# shellcheck source=action/lib/programs.sh
. "$here/lib/programs.sh"
[ "$#" -eq 1 ] || fail "programs.sh needs a folder"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$1"
if ! fetch_programs "$1"; then
  [ "$why" = "${why#there is no pinned}" ] || { echo "$why"; exit 0; }
  fail "$why"
fi
