# Recipes for development; `.ci/run` runs the same steps.

# All checks of CI; `.ci/run STEP…` runs some of them.
all: format lint test deny example action

format:
    cargo fmt --check

lint:
    cargo clippy --all-targets --locked -- -D warnings

test:
    cargo test --locked

deny:
    cargo deny check licenses bans sources

# Renders the example of the README and compares the result.
example:
    rm -rf out
    cargo run --release --locked -- render examples/repo --out out
    diff -r out examples/rendered/repo
    rm -rf out

action:
    action/test.sh

# Pages in a real browser.
page:
    cargo build --locked
    .ci/run page

# Recorded decisions of real control planes: `just conformance karmada/scheduling`.
conformance part="":
    cargo test --test conformance -- {{part}}

# One recorded case as YAML, or as files in a folder: `just case karmada/ties/0015 [FOLDER]`.
case id folder="":
    cargo test --quiet --test conformance -- --case {{id}} {{folder}}

# Sends random requests to a real API server and to the one for tests, and shows where the answers differ.
compare-apiserver kubeconfig *arguments="":
    cargo run --quiet -p federate-test-apiserver --example compare -- {{kubeconfig}} {{arguments}}

# Lets `git diff` show the text of compressed cases.
readable-diffs:
    git config diff.recorded-cases.textconv "gzip -dc"

# Updates generated files: schemas, rendered examples and the outputs in documents.
update:
    UPDATE_SCHEMAS=1 cargo test --test schemas
    UPDATE_EXAMPLES=1 cargo test --test cli examples
    UPDATE_DOCUMENTATION=1 cargo test --test documentation

bench:
    cargo bench

# Runs every fuzz target for this number of seconds: `just fuzz`, and `just fuzz-long` for hours.
fuzz seconds="60" *targets="":
    fuzz/run {{seconds}} {{targets}}

fuzz-long hours="1":
    fuzz/run $(({{hours}} * 3600))
