#!/usr/bin/env bash
# Runs federate in a GitHub workflow: the output goes to the log and to the job summary.
set -euo pipefail

command=${INPUT_COMMAND:-check}
path=${INPUT_PATH:-.}
out=${INPUT_OUT:-rendered}
# Blanks and line ends separate; `read` reports the end of its input as a failure.
read -r -d '' -a more <<<"${INPUT_ARGS:-}" || true

case $command in
  check | plan) arguments=("$command") ;;
  render) arguments=(render "--out=$out") ;;
  *)
    echo "::error::the command must be check, plan or render"
    exit 2
    ;;
esac
arguments+=("${more[@]}" -- "$path")

if ! command -v federate >/dev/null 2>&1; then
  echo "::group::building federate"
  # From its own folder, where rust-toolchain.toml names the toolchain.
  (cd "$GITHUB_ACTION_PATH" && cargo install --quiet --locked --path .) || exit 2
  export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
  echo "::endgroup::"
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
result=$scratch/result
before=$scratch/before
if [ "$command" = render ] && [ -d "$out" ]; then
  cp -R "$out" "$before"
else
  mkdir "$before"
fi

# The output quotes the repo, which may be a stranger's: the runner must not find commands in it.
token=federate-$RANDOM$RANDOM$RANDOM
echo "::stop-commands::$token"
code=0
federate "${arguments[@]}" 2>&1 | tee "$result" || code=${PIPESTATUS[0]}
echo "::$token::"

{
  echo "### federate $command"
  echo
  # Indented, because text that is not ours could close a fence. A summary may hold one MiB; this leaves
  # room for others.
  head -c 500000 "$result" | sed 's/^/    /'
  echo
} >>"${GITHUB_STEP_SUMMARY:-/dev/null}"

changed=false
if [ "$command" = render ] && [ -d "$out" ] && ! diff -rq "$before" "$out" >/dev/null; then
  changed=true
fi
{
  echo "exit-code=$code"
  echo "changed=$changed"
} >>"${GITHUB_OUTPUT:-/dev/null}"

# Warnings do not fail a job; `--fail-on` makes errors of those that should.
[ "$code" -le 1 ] || exit "$code"
