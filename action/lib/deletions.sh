# shellcheck shell=bash
# The guard of deletions: what federate refuses to delete goes when a label of the pull request confirms it. Only people who
# may triage issues of the repository can set one.

# Whether the pull request of this event has the label.
has_label() {
  [ -n "$prune_label" ] || return 1
  jq -e --arg wanted "$prune_label" 'any(.pull_request.labels[]?; .name == $wanted)' "$event_file" >/dev/null
}

# Whether the pull request whose merge was pushed has the label; sets merged to its number, and unknown to why that cannot be
# said.
merged_with_label() {
  local api_url=${GITHUB_API_URL:-https://api.github.com} found
  merged=
  unknown=
  [ -n "$prune_label" ] && [ "$event_name" = push ] && [ -n "${GITHUB_SHA:-}" ] || return 1
  if [ -z "$token" ] || ! command -v curl >/dev/null 2>&1; then
    unknown="the input \`token\` is empty, or curl is not installed"
    return 1
  fi
  authorize
  api GET "$api_url/repos/$GITHUB_REPOSITORY/commits/$GITHUB_SHA/pulls"
  if [ "$status" != 200 ]; then
    unknown="GitHub answers $status; it needs \`permissions: pull-requests: read\`"
    return 1
  fi
  # A commit may also be in pull requests that are not merged, or into other branches: their labels confirm nothing.
  found=$(jq -r --arg wanted "$prune_label" --arg branch "${GITHUB_REF_NAME:-}" '
    [.[]? | select(.merged_at != null and ($branch == "" or .base.ref == $branch))]
    | (map(.number) | first // ""), any(.[]; any(.labels[]?; .name == $wanted))' "$scratch/answer") || return 1
  merged=${found%%$'\n'*}
  [ "${found##*$'\n'}" = true ]
}

# Prints how the deletions of a commit that was refused can be confirmed.
how_to_confirm() {
  local way="set the input \`prune-limit\` to 100 for one run"
  if [ -n "$merged" ]; then
    way="add the label \`$prune_label\` to #$merged and run this job again, or $way"
  elif [ -n "$unknown" ]; then
    way="$way (labels of the merged pull request cannot be read: $unknown)"
  fi
  printf 'If the deletions are meant, %s.' "$way"
}

# no_links PATH: fails when a part of an output path in the checkout is a symbolic link, which a pull request may have made.
no_links() {
  local at=. part parts rest=$1
  case $rest in
    "$PWD"/*) rest=${rest#"$PWD"/} ;;
    /*) return 0 ;;
  esac
  IFS=/ read -r -a parts <<<"$rest"
  for part in ${parts[@]+"${parts[@]}"}; do
    at=$at/$part
    [ ! -L "$at" ] || fail "cannot write to $1: ${at#./} is a symbolic link in the checkout, which may lead anywhere"
  done
}
