# Builds the binary, then leaves everything but the binary and git behind.
FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
# Dependencies change less often than sources: build them against an empty program first.
COPY Cargo.toml Cargo.lock rust-toolchain.toml ./
RUN mkdir -p src benches examples tests/conformance \
    && for file in src/main.rs benches/plan.rs benches/publish.rs examples/fleet.rs tests/conformance/main.rs; do \
         echo 'fn main() {}' > "$file"; done \
    && touch src/lib.rs \
    && cargo build --release --locked --bin federate \
    && rm -rf src
COPY src src
RUN touch src/main.rs src/lib.rs && cargo build --release --locked --bin federate

FROM debian:bookworm-slim
LABEL org.opencontainers.image.title="federate" \
      org.opencontainers.image.description="Renders per-cluster Kubernetes manifests by running the multi-cluster scheduler offline" \
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
