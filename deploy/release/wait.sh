#!/usr/bin/env bash
# Waits for the jobs of this run that build TARGET…, each of which has the name of its target.
#
#   wait.sh TARGET…
#
# A job that runs is waited for: its own timeout ends it. A job that no runner has taken after QUEUE_SECONDS is not waited for any
# longer: GitHub keeps a job whose runner does not exist for a day before it fails. Whether each job has built is seen by its artifact.
set -euo pipefail
queue=${QUEUE_SECONDS:-1800}
poll=${POLL_SECONDS:-30}
jobs=$(mktemp)
trap 'rm -f "$jobs"' EXIT
while :; do
  if ! gh api --paginate "repos/$GITHUB_REPOSITORY/actions/runs/$GITHUB_RUN_ID/jobs?per_page=100" \
    --jq '.jobs[] | [.name, .status] | @tsv' >"$jobs"; then
    # The job's own timeout ends this.
    sleep "$poll"
    continue
  fi
  running=()
  queued=()
  for target; do
    case $(awk -F '\t' -v name="$target" '$1 == name { print $2; exit }' "$jobs") in
      completed) ;;
      in_progress) running+=("$target") ;;
      *) queued+=("$target") ;;
    esac
  done
  if [ ${#running[@]} = 0 ] && { [ ${#queued[@]} = 0 ] || [ "$SECONDS" -ge "$queue" ]; }; then
    break
  fi
  sleep "$poll"
done
for target in ${queued[@]+"${queued[@]}"}; do
  echo "::warning::no runner has taken $target for $SECONDS seconds: the release goes on without it"
done
