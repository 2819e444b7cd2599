# shellcheck shell=bash disable=SC2016,SC2154 # text is literal; variables are those of lib/setup.sh
# The guard of deletions: what federate refuses is reported with the next step, and goes with a label; and links on the way out.
checkout refs/heads/main
fresh_api

refused() {
  play
  plays commit 2 '{"kind": "CommitResult", "changed": false, "branches": [], "refused": {"limit": 30, "deleted": 3, "before": 4, "clusters": []}}' \
    $'error: branch rendered: 3 of the 4 objects would go\n  cluster eu would lose all of its 3 objects:\n'
  printf '%s' '{"kind": "CommitResult", "changed": true, "branches": [{"branch": "rendered", "commit": "aa"}]}' >"$work/play/commit.confirmed"
}

pulls() {
  jq -n --arg wanted "$1" --arg base "$2" --argjson merged "$3" \
    '[{number: 7, merged_at: (if $merged then "2026-01-01T00:00:00Z" else null end), base: {ref: $base}, labels: [{name: $wanted}]}]' >"$api/pulls.json"
}

commits() {
  run "$@" INPUT_COMMAND=commit INPUT_BRANCH=rendered GITHUB_SHA="$base" GITHUB_REF_NAME=main
}

# Without the label, nothing is committed, and the annotation says what would go and how to go on.
on_push "$first"
refused
pulls other main true
commits 2 INPUT_PRUNE_LABEL=confirm
has log '::error title=federate::nothing was committed for .: error: branch rendered: 3 of the 4 objects would go%0A  cluster eu would lose all of its 3 objects:%0AIf the deletions are meant, add the label'
has log 'add the label `confirm` to #7 and run this job again, or set the input `prune-limit` to 100 for one run.'
output commit ""
output changed false
output summary ".: clean; not committed, because too much would be deleted"
called "check -o json -- .
commit --branch=rendered --push=origin -o json -- ."

# With it, the same commit is confirmed.
refused
pulls confirm main true
commits 0 INPUT_PRUNE_LABEL=confirm
has play/calls "commit --branch=rendered --push=origin --prune-limit=100 -o json -- ."
output commit aa
output exit-code 0

# The labels of pull requests that were not merged, or into another branch, confirm nothing; nor does an empty label.
refused
pulls confirm main false
commits 2 INPUT_PRUNE_LABEL=confirm
refused
pulls confirm other true
commits 2 INPUT_PRUNE_LABEL=confirm
refused
pulls "" main true
commits 2 INPUT_PRUNE_LABEL=
has_not play/calls --prune-limit

# A token that may not read pull requests is named.
fresh_api
refused
answers '[{"method": "GET", "status": 403}]'
commits 2 INPUT_PRUNE_LABEL=confirm
has log 'labels of the merged pull request cannot be read: GitHub answers 403; it needs `permissions: pull-requests: read`'

# The input.
refused
commits 0 INPUT_PRUNE_LIMIT=100
called "check -o json -- .
commit --branch=rendered --prune-limit=100 --push=origin -o json -- ."
play
run 0 INPUT_COMMAND=render INPUT_OUT=out INPUT_PRUNE_LIMIT=50
has play/calls "render --prune-limit=50 --out=out -- ."
run 2 INPUT_COMMAND=check INPUT_PRUNE_LIMIT=some

# The label of the pull request that runs.
on pull_request "$(jq -n '{number: 7, pull_request: {number: 7, labels: [{name: "confirm"}]}}')"
play
run 0 INPUT_COMMAND=render INPUT_OUT=out INPUT_PRUNE_LABEL=confirm
has play/calls "render --prune-limit=100 --out=out -- ."

# A link of the checkout leads no output elsewhere.
mkdir "$work/elsewhere"
ln -s "$work/elsewhere" linked
for out in linked linked/deep "$PWD/linked/x"; do
  play
  run 2 INPUT_COMMAND=render INPUT_OUT="$out"
  has log "linked is a symbolic link in the checkout"
  has_not play/calls render
done
[ -z "$(ls -A "$work/elsewhere")" ] || wrong "something was written through a link" log
rm linked
