# shellcheck shell=bash
# The revisions to compare, and fetching them into a shallow clone.

# Sets repository to the folder of the checkout around this path, empty when there is none, and prefix to the path in
# it. Only `.git` makes a checkout: what else looks like a repository (HEAD, objects, refs, config) may be files of a
# pull request, with programs in their config.
find_place() {
  local folder=. real
  prefix=$path/
  # A path that exists only in the head revision is not a folder here.
  [ ! -d "$path" ] || folder=$path
  real=$(cd -- "$folder" && pwd -P) || fail "cannot open the folder $path"
  repository=$real
  while [ ! -e "$repository/.git" ]; do
    [ "$repository" != / ] || { repository= && break; }
    repository=$(dirname -- "$repository")
  done
  prefix=${prefix#./}
  [ "$folder" != . ] || [ "$path" = . ] || return 0
  case $path in
    /*) ;;
    *) stays_inside "$real" ;;
  esac
  [ -z "$repository" ] || prefix=${real#"$repository"}/
  prefix=${prefix#/}
}

# stays_inside REAL: fails when a link, which can be a pull request's, leads out of the folder that the step runs in, or to
# what git keeps there. With `..` it is the one who wrote the workflow who leaves it.
stays_inside() {
  local now
  now=$(pwd -P)
  case $1/ in
    */.git/*) ;;
    "${now%/}"/*) return 0 ;;
    *)
      case /$path/ in
        */../*) return 0 ;;
      esac
      ;;
  esac
  fail "the path $path is a link that points outside of the checkout"
}

# checkout_git ARGUMENT…: git in the checkout. Its config is the one of the workflow's checkout step; hooks, daemons and
# housekeeping are not needed for what is done here, objects are those that are asked for, and addresses run nothing.
checkout_git() {
  [ -n "$repository" ] || return 1
  GIT_TERMINAL_PROMPT=0 GIT_NO_REPLACE_OBJECTS=1 GIT_ALLOW_PROTOCOL=${GIT_ALLOW_PROTOCOL:-file:git:http:https:ssh} \
    git -C "$repository" -c core.hooksPath=/dev/null -c core.fsmonitor=false -c gc.auto=0 -c maintenance.auto=false \
    -c fetch.recurseSubmodules=false "$@"
}

# origin COMMAND ARGUMENT…: what fetch and ls-remote do at the address that the checkout came from, and nothing that the
# config says of this remote besides.
origin() {
  local what=$1 address
  shift
  address=$(checkout_git config --get remote.origin.url) || return 1
  case $what in
    fetch) checkout_git fetch --quiet --no-tags --upload-pack=git-upload-pack ${depth[@]+"${depth[@]}"} -- "$address" "$@" ;;
    ls-remote) checkout_git ls-remote --upload-pack=git-upload-pack -- "$address" "$@" ;;
  esac
}

# The message for a revision that is not in the clone and cannot be fetched.
missing="is not in this clone and cannot be fetched from origin: check out with \`fetch-depth: 0\`"

# resolve REV: sets found to the commit's id, fetching it when the clone lacks it.
resolve() {
  local depth=()
  found=
  case $1 in
    '' | -*) return 1 ;;
  esac
  if found=$(checkout_git rev-parse --quiet --verify "$1^{commit}" 2>/dev/null); then
    return 0
  fi
  # A name with more in it would be a refspec.
  case $1 in
    *[!0-9A-Za-z._/-]*) return 1 ;;
  esac
  # In a whole clone a depth would cut the history off.
  if [ "$(checkout_git rev-parse --is-shallow-repository 2>/dev/null)" = true ]; then
    depth=(--depth=1)
  fi
  if ! origin fetch "$1" >"$scratch/git" 2>&1; then
    quote "$scratch/git"
    return 1
  fi
  found=$(checkout_git rev-parse --quiet --verify 'FETCH_HEAD^{commit}')
}

# What the test merge of a pull request was made of: the base at that moment, which the event's base may be behind.
# The commit names its parents also in a clone that lacks them.
merged_into() {
  local parents
  parents=$(checkout_git cat-file commit "${head:-HEAD}" 2>/dev/null | sed -n '/^$/q; s/^parent //p')
  case $parents in
    *$'\n'"$(event '.pull_request.head.sha')") printf '%s' "${parents%%$'\n'*}" ;;
  esac
}

# demand REV: sets base to it. Without it check still says what it finds, so the step goes on to fail at its end.
demand() {
  if resolve "$1"; then
    base=$found
  else
    tell error "the base ${1:-(none in the event)} $missing"
    raise 2
  fi
}

# Sets base for a pull request.
pull_request_base() {
  local merged fork
  merged=$(merged_into)
  demand "${merged:-$(event '.pull_request.base.sha')}"
  if [ -n "$merged" ] || [ -z "$base" ]; then
    return 0
  fi
  # The branch itself is checked out, not its merge: what the base gained since is not this pull request's doing.
  if fork=$(checkout_git merge-base "$base" "${head:-HEAD}" 2>/dev/null) && [ -n "$fork" ]; then
    base=$fork
  fi
}

# Sets base for a push; a branch's first push replaces nothing.
push_base() {
  local before
  before=$(event '.before')
  case $before in
    *[!0]*) ;;
    *) return 0 ;;
  esac
  if resolve "$before"; then
    base=$found
  else
    tell warning "nothing to compare with: $before, the commit before this push, is neither in this clone nor at origin"
  fi
}

# Sets head, empty for the work tree.
find_head() {
  head=
  [ -n "$head_wanted" ] || return 0
  resolve "$head_wanted" || fail "the head $head_wanted $missing"
  head=$found
}

# Sets memory to the arguments for the plan on the rendered branch, so that a pull request shows what the next commit
# will change. A missing branch has no plan; arguments of the workflow take precedence.
find_memory() {
  local home=${branch//'{cluster}'/hub} tip folder
  memory=()
  memory_note=
  case "$branch ${more[*]-} " in
    " "* | *" --previous"[\ =]* | *" --fresh "*) return 0 ;;
  esac
  if [ "$push" = true ]; then
    tip=$(origin ls-remote "refs/heads/$home" 2>"$scratch/git") || {
      quote "$scratch/git"
      fail "cannot look up the branch $home at origin"
    }
    resolve "${tip%%$'\t'*}" || found=
  else
    found=$(checkout_git rev-parse --quiet --verify "refs/heads/$home^{commit}") || found=
  fi
  if [ -z "$found" ]; then
    memory_note="There is no branch $home with an earlier plan: the base is scheduled from scratch."
    return 0
  fi
  folder=$(own_place "$branch_path" "$path")
  folder=${folder:+${folder%/}/}placements.yaml
  if checkout_git cat-file -e "$found:$folder" 2>/dev/null; then
    memory=("--previous=$found:$folder")
  else
    memory_note="The branch $home has no $folder with an earlier plan: the base is scheduled from scratch."
  fi
}

# Sets base, empty if there is nothing to compare with.
find_base() {
  base=
  if [ -n "$base_wanted" ]; then
    demand "$base_wanted"
  elif [ -n "$pull_request" ]; then
    pull_request_base
  elif [ "$event_name" = merge_group ]; then
    demand "$(event '.merge_group.base_sha')"
  elif [ "$event_name" = push ]; then
    push_base
  elif [ "$command" = diff ]; then
    tell error "diff needs the input \`base\` on the event $event_name"
    raise 2
  fi
}
