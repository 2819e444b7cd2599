#!/bin/sh
# A step for any pipeline: checks a folder, and writes what changes since a base to federate-diff.md.
#
#   federate.sh FOLDER [BASE]
#
# Exits with 0 when all is well, 1 with warnings, 2 with errors.
set -eu
folder=$1
base=${2:-}

check=0
federate check -- "$folder" || check=$?

if [ -n "$base" ]; then
  # 0: no differences, 1: differences, 2: an error; the comment then shows what could still be compared.
  diff=0
  federate diff --keep-going "--from=$base.." -o markdown -- "$folder" >federate-diff.md || diff=$?
  [ "$diff" -le 1 ] || exit "$diff"
fi
exit "$check"
