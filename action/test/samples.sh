# shellcheck shell=bash disable=SC2016,SC2154 # text is literal; variables are those of lib/setup.sh
# The samples for other systems (docs/ci).
samples=${here%/*}/docs/ci
checkout refs/heads/main
play
: >"$work/log"

# The plain step: 0 clean, 1 warnings, 2 errors.
step() {
  local expected=$1 got=0
  shift
  env PATH="$here/test:$PATH" PLAY="$work/play" sh "$samples/federate.sh" "$@" >"$work/log" 2>&1 || got=$?
  [ "$got" = "$expected" ] || wrong "exit $got, not $expected" log
}
step 0 "my folder"
called 'check -- my\ folder'
plays check 1 ''
plays diff 1 $'# Differences\n'
step 1 deploy main
has play/calls 'diff --keep-going --from=main.. -o markdown -- deploy'
[ "$(cat federate-diff.md)" = '# Differences' ] || wrong "no differences" log
play
plays diff 2 ''
step 2 deploy main
play
plays check 2 ''
step 2 deploy main

# GitLab's note: as the comment on GitHub.
note() {
  printf '%s' "$2" >"$work/diff.md"
  env CI_API_V4_URL="$api_url" CI_PROJECT_ID=9 CI_MERGE_REQUEST_IID=7 FEDERATE_NOTE_TOKEN=secret-token \
    bash "$samples/gitlab-note.sh" "$1" "$work/diff.md" >"$work/log" 2>&1 || wrong "no note" log
}
fresh_api
note 0 ''
requests "GET GET"
jq -n '[range(4) | {id: ., author: {id: 1}, body: "<!-- federate -->"}]' >"$api/comments.json"
note 1 $'# Differences\n'
comments length 5
comments '.[4].body' $'<!-- federate -->\n# Differences'
jq -e -s 'all(.authorization == "secret-token")' "$api/requests.jsonl" >/dev/null || wrong "no token" api/requests.jsonl
: >"$api/requests.jsonl"
note 2 $'# A part\n'
requests "GET GET GET PUT"
comments '.[4].body' $'<!-- federate -->\n# A part'
note 2 ''
comments '.[4].body | contains("cannot be shown")' true
note 0 ''
comments length 5
comments '.[4].body' $'<!-- federate -->\nfederate: no differences.'
answers '[{"method": "GET", "status": 500}]'
note 1 $'# Again\n'
comments '.[4].body' $'<!-- federate -->\n# Again'
