#!/usr/bin/env bash
# Runs the action's entry script with a stand-in for federate and for the files GitHub gives.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
cat >"$work/bin/federate" <<'STAND_IN'
#!/usr/bin/env bash
echo "ran: $*"
echo "$STAND_IN_SAYS"
if [ -n "${STAND_IN_WRITES:-}" ]; then
  mkdir -p out
  echo "$STAND_IN_WRITES" >out/web.yaml
fi
exit "$STAND_IN_CODE"
STAND_IN
chmod +x "$work/bin/federate"

cd "$work"

# run EXPECTED-CODE SAYS CODE VAR=VALUE…
run() {
  local expected=$1 says=$2 code=$3
  shift 3
  : >"$work/summary"
  : >"$work/output"
  local got=0
  env PATH="$work/bin:$PATH" STAND_IN_SAYS="$says" STAND_IN_CODE="$code" \
    GITHUB_STEP_SUMMARY="$work/summary" GITHUB_OUTPUT="$work/output" "$@" \
    "$here/entrypoint.sh" >"$work/log" || got=$?
  if [ "$got" != "$expected" ]; then
    echo "exit $got, not $expected: $*"
    cat "$work/log"
    exit 1
  fi
}

has() {
  grep -qF -- "$2" "$work/$1" || {
    echo "no '$2' in $1:"
    cat "$work/$1"
    exit 1
  }
}

run 0 "clean" 0 INPUT_COMMAND=check INPUT_PATH="my repo" INPUT_ARGS=$'--fail-on unmatched\n--fresh'
has log "ran: check --fail-on unmatched --fresh -- my repo"
has summary "    clean"
has output "exit-code=0"
has output "changed=false"

run 0 "one warning" 1 INPUT_COMMAND=check
has output "exit-code=1"

run 2 "error" 2 INPUT_COMMAND=plan
has output "exit-code=2"

# What changed is read from the folder, not from what is said about it.
run 0 "quiet" 0 INPUT_COMMAND=render INPUT_OUT=out STAND_IN_WRITES=one
has log "ran: render --out=out -- ."
has output "changed=true"
run 0 "3 updated" 0 INPUT_COMMAND=render INPUT_OUT=out STAND_IN_WRITES=one
has output "changed=false"
run 0 "quiet" 0 INPUT_COMMAND=render INPUT_OUT=out STAND_IN_WRITES=two
has output "changed=true"

run 2 "" 0 INPUT_COMMAND=destroy
has log "must be check, plan or render"

# Text of the repo is no command for the runner, and cannot leave its block in the summary.
run 0 $'::add-mask::secret\n```' 0 INPUT_COMMAND=plan
has summary '    ```'
token=$(sed -n 's/^::stop-commands:://p' "$work/log")
if [ "$(grep -n "^::add-mask::" "$work/log" | cut -d: -f1)" -le "$(grep -n '^::stop-commands::' "$work/log" | cut -d: -f1)" ] ||
  [ "$(tail -n 1 "$work/log")" != "::$token::" ]; then
  echo "commands are not stopped around the output:"
  cat "$work/log"
  exit 1
fi

# Without a binary it is built in the action's own folder.
rm "$work/bin/federate"
mkdir "$work/action" "$work/home"
cat >"$work/bin/cargo" <<'STAND_IN'
#!/usr/bin/env bash
echo "cargo $* in ${PWD##*/}"
mkdir -p "$CARGO_HOME/bin"
printf '#!/bin/sh\necho built\n' >"$CARGO_HOME/bin/federate"
chmod +x "$CARGO_HOME/bin/federate"
STAND_IN
chmod +x "$work/bin/cargo"
run 0 "" 0 INPUT_COMMAND=check GITHUB_ACTION_PATH="$work/action" CARGO_HOME="$work/home" PATH="$work/bin:/usr/bin:/bin"
has log "cargo install --quiet --locked --path . in action"
has summary "    built"
echo "the action's entry script: ok"
