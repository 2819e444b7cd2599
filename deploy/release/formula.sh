#!/usr/bin/env bash
# Prints the formula for Homebrew of a release: formula.sh VERSION SHA256SUMS
set -euo pipefail
version=$1
sums=$2
formula=$(cat "$(dirname "$0")/federate.rb.template")
formula=${formula//@VERSION@/$version}
for target in aarch64-apple-darwin x86_64-apple-darwin aarch64-unknown-linux-musl x86_64-unknown-linux-musl; do
  sum=$(awk -v name="federate-$target.tar.gz" '$2 == name || $2 == "*" name { print $1; exit }' "$sums")
  [ -n "$sum" ] || { echo "$sums has no federate-$target.tar.gz" >&2 && exit 1; }
  formula=${formula//@$target@/$sum}
done
printf '%s\n' "$formula"
