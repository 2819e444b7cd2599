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
exit "$STAND_IN_CODE"
STAND_IN
chmod +x "$work/bin/federate"

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

run 0 "clean" 0 INPUT_COMMAND=check INPUT_PATH=deploy INPUT_ARGS="--fail-on unmatched"
has log "ran: check deploy --fail-on unmatched"
has summary "clean"
has output "exit-code=0"
has output "changed=false"

run 0 "one warning" 1 INPUT_COMMAND=check
has output "exit-code=1"

run 2 "error" 2 INPUT_COMMAND=plan
has output "exit-code=2"

run 0 "out: 3 created, 1 removed in 2 clusters" 0 INPUT_COMMAND=render INPUT_OUT=out
has log "ran: render . --out out"
has output "changed=true"

run 0 "out: 90 unchanged in 2 clusters" 0 INPUT_COMMAND=render
has output "changed=false"

run 2 "" 0 INPUT_COMMAND=destroy
has log "must be check, plan or render"
echo "the action's entry script: ok"
