# shellcheck shell=bash
# One function per stage: each runs federate for one path and writes its results to $results/<number>.

# Makes sure that federate is in the PATH, where action/install.sh has put it.
find_binary() {
  command -v federate >/dev/null 2>&1 || fail "federate is not in the PATH"
}

# run OUT COMMAND…: sets code; error messages go to $scratch/errors and to the log.
run() {
  local result=$1
  shift
  code=0
  federate "$@" >"$result" 2>"$scratch/errors" || code=$?
  quote "$scratch/errors"
}

# unexplained WHAT: an annotation for an error that is not among the findings.
unexplained() {
  [ "$explained" = false ] || return 0
  tell error "$1 failed for $path: $(head -c 2000 "$scratch/errors")"
}

# Checks for findings; sets checked to the exit code, and explained to whether the findings include the errors.
stage_check() {
  run "$mine/check.json" check ${more[@]+"${more[@]}"} ${memory[@]+"${memory[@]}"} ${head:+"--rev=$head"} -o json -- "$path"
  raise "$code"
  checked=$code
  explained=false
  # A repo that cannot be read at all has no findings, only a message.
  jq -c --arg prefix "$prefix" '.findings[] | if .file then .file = $prefix + .file else . end' \
    "$mine/check.json" >"$mine/findings" 2>/dev/null || : >"$mine/findings"
  if [ -s "$mine/findings" ]; then
    [ "$code" -le 1 ] || explained=true
    cat "$mine/findings" >>"$scratch/findings"
    jq -r -f "$here/lib/lines.jq" "$mine/findings" >"$mine/findings.txt"
    quote "$mine/findings.txt"
  elif [ "$code" -gt 1 ]; then
    unexplained check
    say "could not be checked"
    return 0
  fi
  say "$(jq -s -r -f "$here/lib/verdict.jq" "$mine/findings")"
}

# Writes the plan for later steps, and prints it as a table if requested.
stage_plan() {
  run "$mine/plan.json" plan ${more[@]+"${more[@]}"} ${memory[@]+"${memory[@]}"} ${head:+"--rev=$head"} -o json -- "$path"
  raise "$code"
  if jq -e . "$mine/plan.json" >/dev/null 2>&1; then
    plans=$plans${plans:+$'\n'}$mine/plan.json
  else
    unexplained plan
  fi
  [ "$command" = plan ] || return 0
  run "$mine/plan.txt" plan --quiet ${more[@]+"${more[@]}"} ${memory[@]+"${memory[@]}"} ${head:+"--rev=$head"} -- "$path"
  quote "$mine/plan.txt"
}

# Compares with the base; sets differences to none, some or unknown.
stage_diff() {
  local arguments limit=$prune_limit
  differences=none
  ! has_label || limit=100
  find_base
  [ -n "$base" ] || return 0
  # Exactly this base: it was chosen, and a shallow clone cannot find where the branches parted.
  arguments=(diff ${more[@]+"${more[@]}"} ${memory[@]+"${memory[@]}"} "--from=$base.." ${head:+"--to=$head"} ${limit:+"--prune-limit=$limit"} ${prune_label:+"--prune-label=$prune_label"} -o markdown)
  side_names
  # A partial diff still helps reviewers.
  case " ${more[*]-} " in
    *" --keep-going "*) ;;
    *) arguments+=(--keep-going) ;;
  esac
  run "$mine/diff.md" "${arguments[@]}" -- "$path"
  raise "$code"
  changed_here=true
  case $code in
    0)
      changed_here=false
      say "no differences from ${base:0:10}"
      ;;
    1)
      differences=some
      say "differences from ${base:0:10}$(headline)"
      ;;
    *)
      differences=unknown
      say "only partly comparable with ${base:0:10}"
      unexplained diff
      ;;
  esac
  diffs=$diffs${diffs:+$'\n'}$mine/diff.md
  [ "$differences" = none ] || [ "$page" = false ] || write_page "${arguments[@]}"
}

# write_page ARGUMENTS…: the same differences as a page. The comment does not depend on it.
write_page() {
  local word page_arguments=()
  for word; do
    [ "$word" != markdown ] || word=html
    page_arguments+=("$word")
  done
  federate "${page_arguments[@]}" -- "$path" >"$mine/page.html" 2>/dev/null || :
  if [ -s "$mine/page.html" ]; then
    pages=$pages${pages:+$'\n'}$mine/page.html
  fi
}

# plain NAME: whether it is a name without special characters.
plain() {
  case $1 in
    '' | -* | *[!0-9A-Za-z._/\ -]*) return 1 ;;
  esac
}

# Names the sides as people know them, and links lines to the files of the later side.
side_names() {
  local from='' to='' server=${GITHUB_SERVER_URL:-https://github.com} commit
  if [ -n "$pull_request" ] && [ -z "$base_wanted$head_wanted" ]; then
    from=$(event '.pull_request.base.ref')
    to=$(event '.pull_request.head.ref')
  elif [ "$event_name" = push ] && [ -z "$base_wanted$head_wanted" ]; then
    to=${GITHUB_REF_NAME:-}
    from=${to:+$to before this push}
  fi
  # Only plain names: the branch of a pull request is named by its author.
  plain "$from" && arguments+=("--from-name=$from")
  plain "$to" && arguments+=("--to-name=$to")
  # The commit that is shown to readers of a pull request is its head; the test merge is not kept.
  commit=${head:-$(event '.pull_request.head.sha')}
  commit=${commit:-${GITHUB_SHA:-}}
  [ -z "$commit" ] || arguments+=("--link=$server/${GITHUB_REPOSITORY:-}/blob/$commit")
}

# The summary of the differences from their heading.
headline() {
  awk 'sub(/^### federate: /, ": ") { print; exit }' "$mine/diff.md"
}

# Renders to a folder; changes are read from the folder, not from the output.
stage_render() {
  local folder before=$scratch/before limit=$prune_limit
  folder=$(own_place "$out" "$path")
  no_links "$folder"
  ! has_label || limit=100
  rm -rf "$before"
  if [ -d "$folder" ]; then
    cp -R "$folder" "$before"
  else
    mkdir "$before"
    mkdir -p "$(dirname -- "$folder")"
  fi
  run "$mine/render.txt" render ${more[@]+"${more[@]}"} ${memory[@]+"${memory[@]}"} ${head:+"--rev=$head"} ${limit:+"--prune-limit=$limit"} "--out=$folder" -- "$path"
  quote "$mine/render.txt"
  raise "$code"
  [ "$code" -le 1 ] || unexplained render
  changed_here=false
  if [ -d "$folder" ] && ! diff -rq "$before" "$folder" >/dev/null; then
    changed_here=true
    say "rendered"
  fi
}

# Commits to the branch, unless check found errors and --keep-going is not set.
stage_commit() {
  local folder arguments limit=$prune_limit
  folder=$(own_place "$branch_path" "$path")
  changed_here=false
  ! has_label || limit=100
  case " ${more[*]-} " in
    *" --keep-going "*) ;;
    *)
      if [ "$checked" -gt 1 ]; then
        say "not committed"
        return 0
      fi
      ;;
  esac
  arguments=(commit ${more[@]+"${more[@]}"} ${head:+"--rev=$head"} "--branch=$branch" ${folder:+"--branch-path=$folder"} ${limit:+"--prune-limit=$limit"})
  [ "$push" = false ] || arguments+=(--push=origin)
  author
  deploy_key
  run "$mine/commit.json" "${arguments[@]}" -o json -- "$path"
  if [ -s "$mine/commit.json" ] && jq -e '.refused != null' "$mine/commit.json" >/dev/null 2>&1; then
    cp "$scratch/errors" "$scratch/refusal"
    if merged_with_label; then
      run "$mine/commit.json" "${arguments[@]}" --prune-limit=100 -o json -- "$path"
    else
      raise "$code"
      tell error "nothing was committed for $path: $(head -c 4000 "$scratch/refusal")"$'\n'"$(how_to_confirm)"
      say "not committed, because too much would be deleted"
      return 0
    fi
  fi
  quote "$mine/commit.json"
  raise "$code"
  [ "$code" -le 1 ] || unexplained commit
  if ! jq -e '.branches' "$mine/commit.json" >/dev/null 2>&1; then
    say "not committed"
    return 0
  fi
  jq -c '.branches[]' "$mine/commit.json" >"$mine/branches"
  cat "$mine/branches" >>"$scratch/branches"
  changed_here=$(jq -r '.changed == true' "$mine/commit.json")
  say "$(jq -s -r -f "$here/lib/committed.jq" "$mine/branches")"
}

# Runners have no committer: use the identity of GitHub's own actions.
author() {
  checkout_git config user.email >/dev/null 2>&1 && return 0
  export GIT_AUTHOR_NAME=${GIT_AUTHOR_NAME:-github-actions[bot]}
  export GIT_AUTHOR_EMAIL=${GIT_AUTHOR_EMAIL:-41898282+github-actions[bot]@users.noreply.github.com}
  export GIT_COMMITTER_NAME=${GIT_COMMITTER_NAME:-$GIT_AUTHOR_NAME}
  export GIT_COMMITTER_EMAIL=${GIT_COMMITTER_EMAIL:-$GIT_AUTHOR_EMAIL}
}

# federate runs no program that a repository's own config names. The checkout step writes one there for its `ssh-key`, and
# that config is the workflow's.
deploy_key() {
  local program
  [ -z "${GIT_SSH_COMMAND:-}" ] || return 0
  program=$(checkout_git config --get core.sshCommand) && [ -n "$program" ] || return 0
  export GIT_SSH_COMMAND=$program
}
