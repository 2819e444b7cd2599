# shellcheck shell=bash disable=SC2016,SC2154 # text is literal; variables are those of lib/setup.sh
# From end to end with the real binary, where there is one that compares revisions.
if [ -x "$binary" ] && "$binary" diff --help >/dev/null 2>&1; then
  play
  mkdir "$work/real" "$work/shop"
  ln -s "$binary" "$work/real/federate"
  git init --quiet --initial-branch=main "$work/shop"
  cd "$work/shop" || exit
  git config user.name Test
  git config user.email test@example.com
  cp -R "${here%/*}/examples/repo" deploy
  git add --all
  git commit --quiet --message base
  base=$(git rev-parse HEAD)
  sed -i.bak 's/replicas: 24/replicas: 30/' deploy/apps/storefront/*.yaml
  rm deploy/apps/storefront/*.bak
  git commit --quiet --all --message head
  head=$(git rev-parse HEAD)
  [ "$base" != "$head" ] || wrong "the example has no storefront with 24 replicas" play/calls
  git clone --quiet --bare . "$work/shop.git"
  git remote add origin "$work/shop.git"

  on_pull_request
  fresh_api
  run 0 PATH="$work/real:$PATH" INPUT_PATHS=deploy
  output changed true
  comments length 1
  comments '.[0].body | startswith("<!-- federate: deploy -->\n")' true
  comments '.[0].body | contains("storefront")' true
  run 0 PATH="$work/real:$PATH" INPUT_PATHS=deploy
  comments length 1
  has output "summary=deploy: clean; differences from ${base:0:10}: "
  has summary "storefront"
  jq -e '.kind == "Plan"' "$(echo "$work"/temp/federate.*/1/plan.json)" >/dev/null

  if "$binary" commit --help >/dev/null 2>&1; then
    # As in CI: one commit deep, and the rendered branch is only at origin.
    on_push "$base"
    git clone --quiet --depth=1 "file://$work/shop.git" "$work/shallow"
    cd "$work/shallow" || exit
    run 0 PATH="$work/real:$PATH" INPUT_PATHS=deploy INPUT_BRANCH=rendered
    output changed true
    rendered=$(git --git-dir="$work/shop.git" rev-parse refs/heads/rendered)
    output commit "$rendered"
    [ "$(git log -1 --format=%an "$rendered")" = "github-actions[bot]" ] || wrong "another author" log
    run 0 PATH="$work/real:$PATH" INPUT_PATHS=deploy INPUT_BRANCH=rendered
    output changed false
    output commit ""

    git clone --quiet --depth=1 "file://$work/shop.git" "$work/next"
    cd "$work/next" || exit
    sed -i.bak 's/replicas: 30/replicas: 33/' deploy/apps/storefront/*.yaml
    rm deploy/apps/storefront/*.bak
    run 0 PATH="$work/real:$PATH" INPUT_PATHS=deploy INPUT_BRANCH=rendered
    output changed true
    [ "$(git --git-dir="$work/shop.git" rev-parse refs/heads/rendered^)" = "$rendered" ] || wrong "not on top" log
    run 0 PATH="$work/real:$PATH" INPUT_PATHS=deploy INPUT_BRANCH='env/{cluster}'
    output changed true
    git --git-dir="$work/shop.git" cat-file -e refs/heads/env/hub:placements.yaml || wrong "no plan" log
    cd "$work/shop" || exit
  fi

  printf 'a: [\n' >deploy/broken.yaml
  on_pull_request
  run 2 PATH="$work/real:$PATH" INPUT_PATHS=deploy
  has log '::error file=deploy/broken.yaml,line=1,col=4,title=invalid-yaml::'
  comments length 1
  comments '.[0].body | contains("invalid-yaml")' true

  # A change that removes an error of the base does not fail; the comment is updated.
  git add --all
  git commit --quiet --message broken
  base=$(git rev-parse HEAD)
  rm deploy/broken.yaml
  git commit --quiet --all --message mended
  head=$(git rev-parse HEAD)
  on_pull_request
  run 0 PATH="$work/real:$PATH" INPUT_PATHS=deploy
  output changed false
  output summary "deploy: clean; no differences from ${base:0:10}"
  comments length 1
  comments '.[0].body | contains("no changes")' true
else
  echo "there is no federate that compares revisions: left out"
fi
