#!/usr/bin/env bash
# Prints the notes of a release: notes.sh VERSION SHA256SUMS CHANGELOG
#
# They begin with the targets for which it has no binary, and what there is in its place.
set -euo pipefail
version=$1
sums=$2
changelog=$3
missing=$(
  while read -r target; do
    awk -v name="federate-$target.tar.gz" '$2 == name || $2 == "*" name { found = 1 } END { exit !found }' "$sums" ||
      echo "- \`$target\`"
  done <"$(dirname "$0")/targets"
)
if [ -n "$missing" ]; then
  cat <<END
This release has no binary for these platforms, because it could not be built:

$missing

There, \`cargo install --locked --git https://github.com/federate-dev/federate --tag v$version federate\` builds it. The action and
\`cargo binstall federate\` build it by themselves. The image has no architecture of Linux that is missing here.

END
fi
cat "$changelog"
