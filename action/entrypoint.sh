#!/usr/bin/env bash
# Runs federate in a GitHub workflow: the output goes to the log and to the job summary.
set -uo pipefail

command=${INPUT_COMMAND:-check}
path=${INPUT_PATH:-.}
out=${INPUT_OUT:-rendered}
read -r -a more <<<"${INPUT_ARGS:-}"

case $command in
  check | plan) arguments=("$command" "$path") ;;
  render) arguments=(render "$path" --out "$out") ;;
  *)
    echo "::error::the command must be check, plan or render, not '$command'"
    exit 2
    ;;
esac

if ! command -v federate >/dev/null 2>&1; then
  echo "::group::building federate"
  cargo install --quiet --locked --path "$GITHUB_ACTION_PATH" || exit 2
  export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
  echo "::endgroup::"
fi

result=$(mktemp)
trap 'rm -f "$result"' EXIT
federate "${arguments[@]}" "${more[@]}" 2>&1 | tee "$result"
code=${PIPESTATUS[0]}

{
  echo "### federate $command"
  echo
  echo '```text'
  # A summary may hold one MiB; this leaves room for others.
  head -c 500000 "$result"
  echo '```'
} >>"${GITHUB_STEP_SUMMARY:-/dev/null}"

changed=false
if [ "$command" = render ] && grep -Eq '[0-9]+ (created|updated|removed)' "$result"; then
  changed=true
fi
{
  echo "exit-code=$code"
  echo "changed=$changed"
} >>"${GITHUB_OUTPUT:-/dev/null}"

# Warnings do not fail a job; `--fail-on` makes errors of those that should.
[ "$code" -le 1 ] || exit "$code"
