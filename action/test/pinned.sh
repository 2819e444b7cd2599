# shellcheck shell=bash disable=SC2154 # variables are those of lib/setup.sh
# What is built and recommended names versions that do not move, and jobs that read what strangers wrote cannot push.
root=${here%/*}
: >"$work/log"

# Images by digest; actions of others by commit.
for file in "$root/Dockerfile" "$root/deploy/release/Dockerfile"; do
  ! grep '^FROM ' "$file" | grep -v '^FROM [a-z]*:[^ ]*@sha256:[0-9a-f]\{64\}\( AS build[a-z-]*\)\?$' >"$work/moving" ||
    wrong "${file#"$root/"} has an image that is not named by its digest" moving
  grep -q 'ca-certificates git gpg openssh-client' "$file" || wrong "${file#"$root/"} lacks what signatures need" log
done
! grep -h ' image: ' "$root"/docs/ci/*.yml | grep -v '@sha256:[0-9a-f]\{64\}$' >"$work/moving" ||
  wrong "a sample has an image that is not named by its digest" moving
! grep -h 'uses: ' "$root"/docs/ci/*.yml "$root"/.github/workflows/*.yml "$root/action.yml" |
  grep -v 'uses: [^ ]*@[0-9a-f]\{40\} # v\|uses: \./$\|uses: federate-dev/federate@v[0-9.]*$' >"$work/moving" ||
  wrong "an action is not named by its commit" moving

# One version everywhere, that of this source.
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml")
! grep -hoE '(federate@|--tag |federate-|-)v[0-9]+\.[0-9]+\.[0-9]+' "$root"/docs/ci/* | grep -v "v$version\$" >"$work/moving" ||
  wrong "a sample names another version" moving
! grep -h 'cargo install' "$root"/docs/ci/* | grep -v -- "--locked.* --tag v$version " >"$work/moving" ||
  wrong "a sample builds what moves" moving

# Jobs: what reads a pull request or clusters holds no token that pushes.
python3 - "$root/docs/ci" >"$work/log" <<'PYTHON' || wrong "a job that reads can push" log
import re
import sys

# Enough of YAML for these files: the top level and its jobs.
def blocks(text, indent):
    pattern = re.compile(r"^ {%d}([.\w-]+):" % indent, re.M)
    starts = list(pattern.finditer(text))
    ends = [match.start() for match in starts[1:]] + [len(text)]
    return {match[1]: text[match.start() : end] for match, end in zip(starts, ends)}

folder = sys.argv[1]
wrong = []
for name in ["github.yml", "github-pull-request.yml", "github-push.yml", "github-nightly-snapshot.yml"]:
    top = blocks(open(f"{folder}/{name}", encoding="utf-8").read(), 0)
    for job, text in blocks(top["jobs"], 2).items():
        rights = text if "permissions:" in text else top["permissions"]
        pushes = "contents: write" in rights
        reads = "secrets.KUBECONFIG" in text or "'pull_request'" in text or name == "github-pull-request.yml"
        wrong += [f"{name}: {job}"] if pushes and reads else []
gitlab = blocks(open(f"{folder}/gitlab-ci.yml", encoding="utf-8").read(), 0)
holders = {
    "FEDERATE_NOTE_TOKEN": [job for job, text in gitlab.items() if "federate/notes" in text],
    "FEDERATE_PUSH_TOKEN": [job for job, text in gitlab.items() if "federate/rendered" in text or "PUSH_TOKEN" in text],
}
wrong += [] if holders == {"FEDERATE_NOTE_TOKEN": ["note"], "FEDERATE_PUSH_TOKEN": ["rendered"]} else [str(holders)]
wrong += ["the job that reads has an environment"] if "environment" in gitlab["federate"] + gitlab[".federate"] else []
print("\n".join(wrong))
sys.exit(bool(wrong))
PYTHON
