# The images of Drover:
#
#   drover    server, node agent and command line, one static program
#   machine   rancher-machine and what its Jobs start
#
# The stages of that name begin with nothing and only copy what the stage `programs` has laid out. scripts/image assembles the same
# images without an engine, by the instructions of these two stages, and understands no others than those in them: see codegen/image.
#
#   docker build --target drover  --build-arg VERSION=v0.1.0 --build-arg REVISION="$(git rev-parse HEAD)" .
#   docker build --target machine --build-arg VERSION=v0.1.0 --build-arg REVISION="$(git rev-parse HEAD)" .
#
# Without a network, add what docs/install.md says: --network=none, --build-context modules=DIRECTORY, and GO_IMAGE where the engine
# has that image from another registry. No line `syntax=` here: it would fetch an image, too.

ARG GO_VERSION=1.26.8
ARG GO_IMAGE=docker.io/library/golang:${GO_VERSION}-trixie

# Downloads of Go modules. A build context with this name takes the place of this empty stage.
FROM scratch AS modules

FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS programs
ARG TARGETARCH
ARG VERSION=dev
ARG SOURCE_DATE_EPOCH=0
ENV GOTOOLCHAIN=local GOPROXY=file:///modules,https://proxy.golang.org,direct
WORKDIR /src
COPY . .
RUN --mount=type=bind,from=modules,target=/modules \
    --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    DROVER_VERSION=${VERSION} scripts/image root

FROM scratch AS drover
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Drover" \
      org.opencontainers.image.description="Provision and manage RKE2 and K3s clusters on Cluster API" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="https://github.com/drover-io/drover" \
      org.opencontainers.image.url="https://github.com/drover-io/drover" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=programs /src/dist/root/drover/ /
ENV PATH=/usr/local/bin
USER 65532:65532
WORKDIR /var/lib/drover
ENTRYPOINT ["/usr/local/bin/drover"]

FROM scratch AS machine
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Drover machine" \
      org.opencontainers.image.description="rancher-machine, as Drover's Jobs run it" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="https://github.com/drover-io/drover" \
      org.opencontainers.image.url="https://github.com/drover-io/drover" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=programs /src/dist/root/machine/ /
ENV PATH=/usr/local/bin HOME=/home/machine
USER 1000:1000
WORKDIR /home/machine
ENTRYPOINT ["/usr/local/bin/machine-entrypoint"]
