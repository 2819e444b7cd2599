# shellcheck shell=bash disable=SC2154 # variables are those of lib/setup.sh
# A release waits for the binaries that are being built, and not for those whose runner does not exist.
mkdir -p "$work/jobs"

# jobs NUMBER ROW…: what the API says of the jobs at a request, and at all later ones that have no rows of their own.
jobs() {
  local at=$1
  shift
  printf '%s\n' "$@" | tr ' ' '\t' >"$work/jobs/$at"
}
cat >"$work/jobs/gh" <<'STAND_IN'
#!/usr/bin/env bash
folder=$(dirname "$0")
asked=$(($(cat "$folder/asked") + 1))
echo "$asked" >"$folder/asked"
[ -f "$folder/$asked" ] && mv "$folder/$asked" "$folder/last"
! grep -q failure "$folder/last" && cat "$folder/last"
STAND_IN
chmod +x "$work/jobs/gh"

# waits REQUESTS TARGET…
waits() {
  local expected=$1
  shift
  echo 0 >"$work/jobs/asked"
  env PATH="$work/jobs:/usr/local/bin:/usr/bin:/bin" GITHUB_REPOSITORY=acme/shop GITHUB_RUN_ID=1 QUEUE_SECONDS="$queue" POLL_SECONDS=0.2 \
    timeout 30 bash "${here%/*}/deploy/release/wait.sh" "$@" >"$work/log" 2>&1 || wrong "exit $?" log
  [ "$expected" = - ] || [ "$(cat "$work/jobs/asked")" = "$expected" ] || wrong "$(cat "$work/jobs/asked") requests, not $expected" log
}

# Until both are completed, whatever became of them. A request that fails is repeated.
queue=60
jobs 1 'a queued' 'b in_progress' 'c completed'
jobs 2 failure
jobs 3 'a in_progress' 'b completed'
jobs 4 'a completed' 'b completed'
waits 4 a b
has_not log warning

# A job that no runner takes is not waited for any longer, but those that run are.
queue=1
jobs 1 'a queued' 'b in_progress'
jobs 12 'a queued' 'b completed'
waits 12 a b
has log '::warning::no runner has taken a for'
has_not log 'taken b'
jobs 1 'b completed'
waits - a b
has log '::warning::no runner has taken a for'
