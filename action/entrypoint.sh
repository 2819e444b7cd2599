#!/usr/bin/env bash
# Runs federate in a GitHub workflow: findings become annotations, differences a job summary and a comment on the pull
# request, a rendering a commit on a branch. Written for bash 3.2, which is what runners on macOS have.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=action/lib/log.sh
. "$here/lib/log.sh"
# shellcheck source=action/lib/inputs.sh
. "$here/lib/inputs.sh"
# shellcheck source=action/lib/revisions.sh
. "$here/lib/revisions.sh"
# shellcheck source=action/lib/commands.sh
. "$here/lib/commands.sh"
# shellcheck source=action/lib/comment.sh
. "$here/lib/comment.sh"
# shellcheck source=action/lib/deletions.sh
. "$here/lib/deletions.sh"
# shellcheck source=action/lib/report.sh
. "$here/lib/report.sh"

# one_path NUMBER PATH: all stages for one path.
one_path() {
  local stage
  path=$2
  mine=$results/$1
  words=
  changed_here=false
  base=
  mkdir "$mine"
  find_place
  echo "::group::federate $(data "$path")"
  find_head
  find_memory
  for stage in "${stages[@]}"; do
    "stage_$stage"
  done
  echo "::endgroup::"
  [ "$changed_here" = false ] || changed=true
  summary=$summary${summary:+ · }$path:\ $words
  summarize
}

# Where the runner does not confine the programs that build kustomizations and charts, they are not built, unless the workflow
# says otherwise. A pull request cannot.
export FEDERATE_REQUIRE_CONFINEMENT="${FEDERATE_REQUIRE_CONFINEMENT-true}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Later steps read the results, so they stay.
results=$(mktemp -d "${RUNNER_TEMP:-${TMPDIR:-/tmp}}/federate.XXXXXX")
summary_file=${GITHUB_STEP_SUMMARY:-$scratch/summary}
output_file=${GITHUB_OUTPUT:-$scratch/output}
touch "$summary_file" "$scratch/findings" "$scratch/branches"
worst=0
changed=false
summary=
plans=
diffs=
pages=

read_inputs
read_event
choose_stages
find_binary
number=0
for each in "${paths[@]}"; do
  number=$((number + 1))
  one_path "$number" "$each"
done
jq -s -r -f "$here/lib/annotations.jq" "$scratch/findings"
write_outputs
# Warnings do not fail a job; `--fail-on` in `args` makes errors of those that should.
[ "$worst" -le 1 ] || exit "$worst"
