# Builds the binary, then leaves everything but the binary and git behind.
FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
# Dependencies change less often than sources: build them against an empty program first. Tests and
# benchmarks are not built here, so the manifest must not ask for their files.
COPY Cargo.toml Cargo.lock ./
RUN sed -i '/^\[\[\(bench\|example\|test\)]]/,/^$/d' Cargo.toml \
    && mkdir src \
    && echo '//! Empty.' >src/lib.rs \
    && printf '//! Empty.\nfn main() {}\n' >src/main.rs \
    && cargo build --release --locked --bin federate
COPY src src
# Newer than what was built from the empty program.
RUN touch src/main.rs src/lib.rs && cargo build --release --locked --bin federate

FROM debian:bookworm-slim
LABEL org.opencontainers.image.title="federate" \
      org.opencontainers.image.description="Renders per-cluster Kubernetes manifests by running the multi-cluster scheduler offline" \
      org.opencontainers.image.source="https://github.com/federate-dev/federate" \
      org.opencontainers.image.licenses="Apache-2.0"
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 65532 --create-home federate
COPY --from=build /src/target/release/federate /usr/local/bin/federate
USER 65532:65532
WORKDIR /repo
ENTRYPOINT ["federate"]
CMD ["--help"]
