# shellcheck shell=bash disable=SC2016,SC2154 # text is literal; variables are those of lib/setup.sh
# Pushes: what they replaced, and the commit on the rendered branch.
checkout refs/heads/main
fresh_api

# What was pushed is compared, one commit deep, and never commented on.
on_push "$first"
play
plays diff 1 $'# Differences\n'
run 0
called "check -o json -- .
plan -o json -- .
diff --from=$first.. -o markdown --keep-going -- .
diff --from=$first.. -o html --keep-going -- ."
output changed true
line summary '# Differences'

# The first push of a branch replaces nothing.
on_push 0000000000000000000000000000000000000000
play
run 0
called $'check -o json -- .\nplan -o json -- .'
output changed false
run 0 INPUT_COMMAND=diff
output changed false
has_not play/calls diff

# What a forced push replaced may be gone.
on_push 1111111111111111111111111111111111111111
play
run 0
has log "::warning title=federate::nothing to compare with: 1111111111111111111111111111111111111111"
has_not play/calls diff
requests ""

# The commit.
on_push "$first"
play
plays commit 0 '{"kind": "CommitResult", "changed": true, "branches": [{"branch": "rendered", "commit": "0123456789abcdef0123456789abcdef01234567", "base": null, "pushed": true}]}'
run 0 INPUT_BRANCH=rendered INPUT_PATHS=deploy INPUT_ARGS=--fresh
has play/calls 'commit --fresh --branch=rendered --push=origin -o json -- deploy'
output commit 0123456789abcdef0123456789abcdef01234567
output changed true
output summary "deploy: clean; no differences from ${first:0:10}; rendered at 0123456789"
output exit-code 0
play
plays commit 0 '{"kind": "CommitResult", "changed": false, "branches": [{"branch": "rendered", "commit": null, "base": "0123456789abcdef0123456789abcdef01234567", "pushed": false}]}'
plays diff 1 $'# Differences\n'
run 0 INPUT_BRANCH=rendered INPUT_PUSH=false INPUT_BRANCH_PATH=eu
has play/calls 'commit --branch=rendered --branch-path=eu -o json -- .'
output commit ""
output changed false
output summary ".: clean; differences from ${first:0:10}; rendered unchanged"

# A branch for each cluster.
play
plays commit 0 '{"changed": true, "branches": [{"branch": "env/eu", "commit": "aa"}, {"branch": "env/us", "commit": null}, {"branch": "env/ap", "commit": "bb"}]}'
run 0 INPUT_COMMAND=commit INPUT_BRANCH='env/{cluster}'
called "check --previous=$rendered:placements.yaml -o json -- .
commit --branch=env/\\{cluster\\} --push=origin -o json -- ."
output commit '{"env/eu":"aa","env/ap":"bb"}'
output summary ".: clean; env/eu at aa, env/us unchanged, env/ap at bb"

# Several paths in one branch: a folder each, and the last commit holds them all.
play
plays commit 0 '{"changed": true, "branches": [{"branch": "rendered", "commit": "aa"}]}'
run 0 INPUT_COMMAND=commit INPUT_BRANCH=rendered INPUT_BRANCH_PATH=all/ INPUT_PATHS=$'a\nb'
has play/calls "--branch-path=all/a --push=origin -o json -- a"
has play/calls "--branch-path=all/b --push=origin -o json -- b"
output commit aa

# Errors are not committed, unless told to go on.
play
plays check 2 '{"findings": [{"severity": "error", "code": "invalid", "message": "m"}]}'
plays commit 2 '{"changed": true, "branches": [{"branch": "rendered", "commit": "aa"}]}'
run 2 INPUT_COMMAND=commit INPUT_BRANCH=rendered
has_not play/calls commit
output summary ".: 1 error; not committed"
run 2 INPUT_COMMAND=commit INPUT_BRANCH=rendered INPUT_ARGS=--keep-going
output commit aa

# A commit that fails says why.
play
plays check 1 '{"findings": [{"severity": "warning", "code": "unmatched", "message": "m"}]}'
plays commit 2 '' $'error: the push was refused:\nnot a fast-forward'
run 2 INPUT_COMMAND=commit INPUT_BRANCH=rendered
line log '::error title=federate::commit failed for .: error: the push was refused:%0Anot a fast-forward'
output commit ""
