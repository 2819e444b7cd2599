# Builds the binary, then keeps only the binary, git, the programs with which git connects and verifies signatures, and helm and
# kubectl, which build charts and kustomizations.
FROM rust:1.95-slim-bookworm@sha256:d7482085ff5b415f84dba5647ae71606650bdef00db7aeb69f4b3d170c3e4082 AS build
# The binary names the crates that it was built from; docs/security.md says how to read them.
RUN cargo install cargo-auditable --version 0.7.7 --locked
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY crates crates
COPY src src
# Tests and benchmarks are not built here, so the manifest must not ask for their files.
RUN sed -i '/^\[\[\(bench\|example\|test\)]]/,/^$/d' Cargo.toml \
    && cargo auditable build --profile dist --locked --bin federate \
    && strip target/dist/federate

FROM debian:bookworm-slim@sha256:3783cc01769c7b2b1b83a5c5ad96c815348e28ed7da68e2e3687004faa906251 AS build-programs
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates curl \
    && rm -rf /var/lib/apt/lists/*
COPY action /action
RUN /action/programs.sh /programs

FROM debian:bookworm-slim@sha256:3783cc01769c7b2b1b83a5c5ad96c815348e28ed7da68e2e3687004faa906251
LABEL org.opencontainers.image.title="federate" \
      org.opencontainers.image.description="Renders per-cluster Kubernetes manifests by running the multi-cluster scheduler offline" \
      org.opencontainers.image.source="https://github.com/federate-dev/federate" \
      org.opencontainers.image.licenses="Apache-2.0"
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git gpg openssh-client \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 65532 --create-home federate
COPY --from=build-programs /programs/ /usr/local/bin/
COPY --from=build /src/target/dist/federate /usr/local/bin/federate
# Builds of repos are refused where the container runtime allows nothing that confines them: `federate doctor`.
ENV FEDERATE_REQUIRE_CONFINEMENT=true
USER 65532:65532
WORKDIR /repo
ENTRYPOINT ["federate"]
CMD ["--help"]
