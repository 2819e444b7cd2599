# shellcheck shell=bash disable=SC2016,SC2154 # text is literal; variables are those of lib/setup.sh
# The comment: created once, then updated in place, whatever the API does.
on_pull_request
checkout refs/pull/7/merge

# Nothing to say, nothing said.
play
fresh_api
plays diff 0 ''
run 0
requests "QUERY GET"
comments length 0
output changed false

# Created once, behind comments of others on several pages.
jq -n '[range(7) | {id: ., user: {type: "User"}, author_association: "MEMBER", body: "talk \(.)"}]' >"$api/comments.json"
: >"$api/requests.jsonl"
plays diff 1 $'# Differences\nweb: 2 → 3\n"quoted" `$(x)` \\n\n'
run 0 INPUT_PATHS=deploy
requests "QUERY GET GET GET POST"
comments length 8
comments '.[7].body' $'<!-- federate: deploy -->\n# Differences\nweb: 2 → 3\n"quoted" `$(x)` \\n'
jq -e -s '.[4] | .authorization == "Bearer secret-token" and .type == "application/json"' "$api/requests.jsonl" >/dev/null ||
  wrong "the request is not as it should be" api/requests.jsonl

# Updated in place.
: >"$api/requests.jsonl"
plays diff 1 $'# Other differences\n'
run 0 INPUT_PATHS=deploy
requests "QUERY GET GET GET PATCH"
comments length 8
comments '.[7].body' $'<!-- federate: deploy -->\n# Other differences'

# Differences that are gone are said to be gone.
plays diff 0 ''
run 0 INPUT_PATHS=deploy
comments length 8
comments '.[7].body' "<!-- federate: deploy -->
federate: \`deploy\` has no differences from ${base:0:10}."

# Another path or another key is another comment.
plays diff 1 $'# D\n'
run 0 INPUT_PATHS=$'deploy\nodd --> name'
comments length 9
comments '.[8].body' $'<!-- federate: odd%20--%3E%20name -->\n<code>odd --&gt; name</code>\n\n# D'
run 0 INPUT_PATHS=deploy INPUT_COMMENT_KEY=prod
comments length 10
comments '.[9].body' $'<!-- federate: deploy%20prod -->\n`deploy` prod\n\n# D'

# Comments of other accounts are not ours, whatever they say and whoever wrote them: strangers, members who may only read, and other bots.
fresh_api
jq -n '["NONE", "CONTRIBUTOR", "COLLABORATOR", "MEMBER", "OWNER"] | to_entries
  | map({id: .key, user: {id: (43 + .key), type: "User"}, author_association: .value, body: "<!-- federate: . -->\nmine"})
  + [{id: 5, user: {id: 48, type: "Bot"}, author_association: "NONE", body: "<!-- federate: . -->\nmine"}]' >"$api/comments.json"
run 0
comments length 7
comments 'map(.body == "<!-- federate: . -->\nmine") | index(false)' 6
run 0
comments length 7

# Whose the token is must be known: no comment is taken for ours otherwise, and none is added at every run.
fresh_api
answers '[{"method": "QUERY", "status": 500}]'
run 0
requests "QUERY QUERY GET POST"
fresh_api
answers '[{"method": "QUERY", "status": 401}]'
run 2
requests "QUERY"
has log "::error title=federate::no comment: GitHub answers 401 (as scripted)"
fresh_api
answers '[{"method": "QUERY", "status": 200}]'
run 2
requests "QUERY"
has log "no comment: GitHub answers nothing about the account of the token"

# Not wanted, or not possible.
fresh_api
run 0 INPUT_COMMENT=false
requests ""
run 0 INPUT_TOKEN=
requests ""
has log "::warning title=federate::no comment: the input \`token\` is empty"

# The token of a fork's pull request only reads: that is no failure.
fresh_api
answers '[{"method": "POST", "status": 403}]'
run 0
requests "QUERY GET POST"
has log "::warning title=federate::no comment: GitHub answers 403 (as scripted)."
has log "the token of a pull request from a fork cannot write"
output changed true

# Not now: as long as the server asks, and a secondary limit is a 403.
fresh_api
answers '[{"method": "GET", "status": 429, "headers": {"Retry-After": "1"}}, {"method": "POST", "status": 403, "headers": {"Retry-After": "1"}}]'
started=$SECONDS
run 0
[ "$((SECONDS - started))" -ge 2 ] || wrong "did not wait" log
requests "QUERY GET GET POST POST"
comments length 1

# A limit that lasts is not waited for.
fresh_api
answers '[{"method": "GET", "status": 429, "headers": {"Retry-After": "3600"}}]'
run 2
requests "QUERY GET"
has log "::error title=federate::no comment: GitHub answers 429 (as scripted)"
output exit-code 2

# A server's error may come after the deed: there is one comment all the same.
fresh_api
answers '[{"method": "POST", "status": 502, "carriedOut": true}]'
run 0
requests "QUERY GET POST GET PATCH"
comments length 1
answers '[{"method": "PATCH", "status": 500}]'
run 0
requests "QUERY GET POST GET PATCH QUERY GET PATCH PATCH"

# Deleted in between.
: >"$api/requests.jsonl"
answers '[{"method": "PATCH", "status": 404}]'
run 0
requests "QUERY GET PATCH GET PATCH"

# What does not pass is a failure with the server's words.
fresh_api
answers '[{"method": "GET", "status": 401}]'
run 2
has log "::error title=federate::no comment: GitHub answers 401 (as scripted)"
fresh_api
answers '[{"method": "GET", "status": 500}, {"method": "GET", "status": 500}, {"method": "GET", "status": 500}, {"method": "GET", "status": 500}]'
run 2
requests "QUERY GET GET GET GET"
has log "no comment: GitHub answers 500"

# Longer than GitHub takes: cut, not refused.
fresh_api
head -c 70000 /dev/zero | tr '\0' 'x' >"$work/play/diff.out"
run 0
comments '.[0].body | length < 65536 and contains("(cut)")' true
