# shellcheck shell=bash disable=SC2016,SC2154 # text is literal; variables are those of lib/setup.sh
# Pull requests: what is compared with what, from clones of every depth.
on_pull_request

# The test merge, one commit deep: its first parent is the base, fetched.
checkout refs/pull/7/merge
play
fresh_api
plays diff 1 $'<!-- x -->\n### federate: one object moves\n\n# Differences\n'
run 0 INPUT_PATHS=deploy
called "check -o json -- deploy
plan -o json -- deploy
diff --from=$base.. -o markdown --from-name=main --to-name=feature --link=https://github.com/acme/shop/blob/$head --keep-going -- deploy
diff --from=$base.. -o html --from-name=main --to-name=feature --link=https://github.com/acme/shop/blob/$head --keep-going -- deploy"
git cat-file -e "$base" || wrong "the base was not fetched" log
output changed true
output summary "deploy: clean; differences from ${base:0:10}: one object moves"
output exit-code 1
[ "$(tail -n 1 "$(echo "$work"/temp/federate.*/1/diff.md)")" = '# Differences' ] || wrong "no differences file" output
output diff "$(echo "$work"/temp/federate.*/1/diff.md)"
output page "$(echo "$work"/temp/federate.*/1/page.html)"
line summary '# Differences'
requests "QUERY GET POST"

# Without a page, the differences are computed once.
play
plays diff 1 $'<!-- x -->\n'
run 0 INPUT_PATHS=deploy INPUT_PAGE=false
has_not play/calls "-o html"
output page ""

# The event's base is behind the one of the test merge, which counts.
on pull_request "$(jq -n --arg base "$old" --arg head "$head" '{pull_request: {number: 7, base: {sha: $base}, head: {sha: $head}}}')"
checkout refs/pull/7/merge
play
run 0
has play/calls "--from=$base.. "
on_pull_request

# The branch itself instead of the merge: where it branched off, when the clone knows.
checkout refs/heads/feature --no-tags
git fetch --quiet origin main
play
run 0
has play/calls "--from=$old.. "
checkout refs/heads/feature
play
run 0
has play/calls "--from=$base.. "

# A whole clone stays whole.
checkout refs/heads/feature --no-tags
play
run 0
has play/calls "--from=$old.. "
[ "$(git rev-parse --is-shallow-repository)" = false ] || wrong "the history was cut off" log

# Base and head of the inputs.
checkout refs/pull/7/merge
play
run 0 INPUT_COMMAND=diff INPUT_BASE=main INPUT_HEAD="$head"
called "check --rev=$head -o json -- .
diff --from=$base.. --to=$head -o markdown --link=https://github.com/acme/shop/blob/$head --keep-going -- ."

# A pull request never commits unless the inputs say so, but all commands start from the plan of the branch.
play
run 0 INPUT_BRANCH=env/rendered INPUT_ARGS=--fail-on=unmatched
called "check --fail-on=unmatched --previous=$rendered:placements.yaml -o json -- .
plan --fail-on=unmatched --previous=$rendered:placements.yaml -o json -- .
diff --fail-on=unmatched --previous=$rendered:placements.yaml --from=$base.. -o markdown --from-name=main --to-name=feature --link=https://github.com/acme/shop/blob/$head --keep-going -- ."
play
run 0 INPUT_BRANCH='env/{cluster}'
has play/calls "diff --previous=$rendered:placements.yaml --from=$base.."
git branch --quiet local "$rendered"
play
run 0 INPUT_BRANCH=local INPUT_PUSH=false
has play/calls "diff --previous=$rendered:placements.yaml --from=$base.."

# A branch that is not there yet, or has no plan at that place, remembers nothing; what the workflow says counts more.
play
run 0 INPUT_BRANCH=new
run 0 INPUT_BRANCH=env/rendered INPUT_BRANCH_PATH=eu
run 0 INPUT_BRANCH=env/rendered INPUT_ARGS='--previous=mine.yaml'
has_not play/calls "--previous=$rendered"
play
run 0 INPUT_BRANCH=env/rendered INPUT_ARGS='--fresh'
has_not play/calls "--previous"

# A folder that the pull request brings is compared with nothing.
play
fresh_api
mkdir new
run 0 INPUT_PATHS=new
has play/calls "diff"

# No base to be had: check still speaks, the step fails and says why.
git remote set-url origin "file://$work/gone.git"
checkout refs/pull/7/merge
git remote set-url origin "file://$work/gone.git"
play
fresh_api
plays check 1 '{"findings": [{"severity": "warning", "code": "unmatched", "message": "m"}]}'
run 2
has log "the base $base is not in this clone and cannot be fetched from origin: check out with \`fetch-depth: 0\`"
has log "::warning title=unmatched::m"
output exit-code 2
requests ""
checkout refs/pull/7/merge

# Errors of the pull request: what can be compared is shown, and the step fails.
play
fresh_api
plays check 2 '{"findings": [{"severity": "error", "code": "invalid", "file": "a.yaml", "line": 3, "message": "bad"}]}'
plays diff 2 $'# A part\n' 'error: bad'
run 2
requests "QUERY GET POST"
comments '.[0].body | contains("# A part")' true
comments '.[0].body | contains("federate check: 1 error")' true
comments '.[0].body | contains("\n    error[invalid] a.yaml:3: bad\n")' true
[ "$(grep -c '^::error ' "$work/log")" = 1 ] || wrong "the error is annotated more than once" log

# A diff that shows nothing is an error of its own.
play
fresh_api
plays diff 2 '' 'error: no memory'
run 2
has log "::error title=federate::diff failed for .: error: no memory"

# Whoever asks to go on is not doubled.
play
run 0 INPUT_ARGS=--keep-going
has play/calls "diff --keep-going --from=$base.. -o markdown --from-name=main --to-name=feature --link=https://github.com/acme/shop/blob/$head -- ."

# With a token that can write, a stranger's code is a danger.
on pull_request_target "$(cat "$work/event.json")"
play
fresh_api
run 0
has log "::warning title=federate::pull_request_target runs with a token that can write"

# A merge queue compares and does not comment.
on merge_group "$(jq -n --arg base "$base" '{merge_group: {base_sha: $base}}')"
play
fresh_api
plays diff 1 $'# Differences\n'
run 0
has play/calls "--from=$base.. "
requests ""
