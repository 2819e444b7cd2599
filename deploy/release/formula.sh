#!/usr/bin/env bash
# Prints the formula for Homebrew of a release: formula.sh VERSION SHA256SUMS
#
# Where the release has no archive for a target, the formula says so to those who install it there.
set -euo pipefail
version=$1
sums=$2
here=$(dirname "$0")
formula=$(cat "$here/federate.rb.template")
download=https://github.com/federate-dev/federate/releases/download/v$version
found=
while read -r target; do
  archive=federate-$target.tar.gz
  sum=$(awk -v name="$archive" '$2 == name || $2 == "*" name { print $1; exit }' "$sums")
  if [ -n "$sum" ]; then
    found=yes
    lines="url \"$download/$archive\"
      sha256 \"$sum\""
  else
    echo "$sums has no $archive" >&2
    lines="odie \"federate $version has no binary for $target; build it: cargo install --locked --git https://github.com/federate-dev/federate --tag v$version federate\""
  fi
  formula=${formula//@$target@/$lines}
done <"$here/targets"
[ -n "$found" ] || { echo "$sums has no archive of a release" >&2 && exit 1; }
printf '%s\n' "${formula//@VERSION@/$version}"
