# shellcheck shell=bash
# What a run must have left behind. Files are named below the folder of the tests.

# wrong WHAT FILE: shows the file and ends the tests.
wrong() {
  echo "${BASH_SOURCE[2]##*/}:${BASH_LINENO[1]}: $1"
  echo "--- $2:"
  cat "$work/$2"
  echo "--- log:"
  cat "$work/log"
  exit 1
}

# has FILE TEXT
has() {
  grep -qF -- "$2" "$work/$1" || wrong "no '$2' in $1" "$1"
}

# has_not FILE TEXT
has_not() {
  ! grep -qF -- "$2" "$work/$1" || wrong "'$2' in $1" "$1"
}

# line FILE TEXT: as a whole line.
line() {
  grep -qxF -- "$2" "$work/$1" || wrong "no line '$2' in $1" "$1"
}

# called TEXT: the calls of federate, one after the other.
called() {
  local calls
  calls=$(sed 's/ $//' "$work/play/calls")
  [ "$calls" = "$1" ] || wrong "not called as expected: $1" play/calls
}

# output NAME VALUE: what the runner reads from the output file.
output() {
  local got
  got=$(python3 - "$work/output" "$1" <<'PYTHON'
import sys
lines = open(sys.argv[1], encoding="utf-8").read().splitlines()
found = {}
while lines:
    line = lines.pop(0)
    name, equals, value = line.partition("=")
    if not equals or "<<" in name:
        name, _, end = line.partition("<<")
        rest = lines.index(end)
        value = "\n".join(lines[:rest])
        del lines[: rest + 1]
    found[name] = value
print(found[sys.argv[2]])
PYTHON
  ) || wrong "no output $1" output
  [ "$got" = "$2" ] || wrong "the output $1 is '$got', not '$2'" output
}

# requests TEXT: methods of the requests since the API was fresh.
requests() {
  local got
  got=$(jq -r 'if .path == "/graphql" then "QUERY" else .method end' "$api/requests.jsonl" | paste -sd ' ' -)
  [ "$got" = "$1" ] || wrong "the requests are '$got', not '$1'" api/requests.jsonl
}

# comments FILTER VALUE: a fact about the comments that stand.
comments() {
  local got
  got=$(jq -r "$1" "$api/comments.json")
  [ "$got" = "$2" ] || wrong "$1 of the comments is '$got', not '$2'" api/comments.json
}
