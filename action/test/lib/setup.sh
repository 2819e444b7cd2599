# shellcheck shell=bash
# The machine of the tests: repository, API, event files, runs.

# The folder of the stand-in API, and its address.
start_api() {
  api=$work/api
  mkdir "$api"
  echo '[]' | tee "$api/comments.json" "$api/pulls.json" >"$api/script.json"
  python3 "$here/test/api.py" "$api" &
  server=$!
  local try
  for try in $(seq 100); do
    [ ! -f "$api/port" ] || break
    [ "$try" -lt 100 ] || { echo "the stand-in API does not start" && exit 1; }
    sleep 0.1
  done
  api_url=http://127.0.0.1:$(cat "$api/port")
}

# git, as one author at one time.
git_() {
  git -c user.name=Test -c user.email=test@example.com -c commit.gpgsign=false "$@"
}

# commit FILE TEXT: commits it and prints the commit's id.
commit() {
  mkdir -p "$(dirname "$1")"
  printf '%s\n' "$2" >"$1"
  git_ add --all
  git_ commit --quiet --message "$1"
  git rev-parse HEAD
}

# An origin with a pull request: `old` is where it branched off, `base` the base branch today, `head` the pull request's
# tip, `merge` GitHub's test merge; and a branch that was `rendered` before.
# shellcheck disable=SC2034 # used by the parts
make_repository() {
  origin=$work/origin.git
  git init --quiet --bare --initial-branch=main "$origin"
  git init --quiet --initial-branch=main "$work/author"
  cd "$work/author"
  commit 'odd --> name/web.yaml' 'kind: Odd' >/dev/null
  first=$(commit deploy/web.yaml 'kind: One')
  old=$(commit deploy/web.yaml 'kind: Two')
  git_ checkout --quiet -b feature
  head=$(commit deploy/api.yaml 'kind: New')
  git_ checkout --quiet main
  base=$(commit deploy/other.yaml 'kind: Other')
  git_ merge --quiet --no-ff --message merge feature
  merge=$(git rev-parse HEAD)
  rendered=$(git_ commit-tree -m rendered "$(printf '100644 blob %s\tplacements.yaml\n' "$(echo plan | git hash-object -w --stdin)" | git mktree)")
  git push --quiet "$origin" "$rendered:refs/heads/env/rendered" "$rendered:refs/heads/env/hub" "$base:refs/heads/main" "$head:refs/heads/feature" "$merge:refs/pull/7/merge"
  cd "$work"
}

# checkout REF [OPTION…]: what actions/checkout does, one commit deep unless told otherwise.
checkout() {
  local ref=$1
  shift
  [ "$#" -gt 0 ] || set -- --depth=1
  rm -rf "$work/workspace"
  git init --quiet "$work/workspace"
  cd "$work/workspace"
  # A path would be linked whole, whatever the depth.
  git remote add origin "file://$origin"
  git fetch --quiet --no-tags "$@" origin "$ref:refs/remotes/checked-out"
  git -c advice.detachedHead=false checkout --quiet refs/remotes/checked-out
}

# A new play for the stand-in: clean, nothing noted.
play() {
  rm -rf "$work/play"
  mkdir "$work/play"
  : >"$work/play/calls"
}

# plays COMMAND CODE OUT [ERR]
plays() {
  printf '%s\n' "$2" >"$work/play/$1.code"
  printf '%s' "$3" >"$work/play/$1.out"
  [ "$#" -lt 4 ] || printf '%s\n' "$4" >"$work/play/$1.err"
}

# answers JSON: what the API answers first.
answers() {
  printf '%s' "$1" >"$api/script.json"
}

# A pull request without comments.
fresh_api() {
  echo '[]' | tee "$api/comments.json" "$api/pulls.json" >"$api/script.json"
  : >"$api/requests.jsonl"
}

# on EVENT JSON: the event of the following runs.
on() {
  event_name=$1
  printf '%s' "$2" >"$work/event.json"
}

on_pull_request() {
  on pull_request "$(jq -n --arg base "$base" --arg head "$head" \
    '{action: "synchronize", number: 7, pull_request: {number: 7, base: {ref: "main", sha: $base}, head: {ref: "feature", sha: $head}}}')"
}

on_push() {
  on push "$(jq -n --arg before "$1" '{ref: "refs/heads/main", before: $before, after: "-"}')"
}

# run EXPECTED-CODE VAR=VALUE…: the entry script, as a composite action runs it.
run() {
  local expected=$1 got=0
  shift
  : >"$work/summary"
  : >"$work/output"
  : >"$work/play/leaked"
  rm -rf "$work/temp"
  mkdir "$work/temp"
  env PATH="$here/test:$PATH" PLAY="$work/play" GITHUB_ACTIONS=true GITHUB_ACTION_PATH="${here%/*}" \
    GITHUB_EVENT_NAME="$event_name" GITHUB_EVENT_PATH="$work/event.json" GITHUB_REPOSITORY=acme/shop \
    GITHUB_API_URL="$api_url" GITHUB_WORKSPACE="$PWD" RUNNER_TEMP="$work/temp" \
    GITHUB_STEP_SUMMARY="$work/summary" GITHUB_OUTPUT="$work/output" INPUT_TOKEN=secret-token "$@" \
    "$here/entrypoint.sh" >"$work/log" 2>&1 || got=$?
  if [ "$got" != "$expected" ]; then
    wrong "exit $got, not $expected: $*" log
  fi
  if grep -q '' "$work/play/leaked" || grep -q secret-token "$work/log"; then
    wrong "the token leaks: $*" play/leaked
  fi
}
