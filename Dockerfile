# Both binaries, and the probe that checks the worker's health, in an image without a shell.
#
#   docker build --build-arg VERSION="$(git describe --tags --always)" -t payonce:dev .

FROM --platform=$BUILDPLATFORM golang:1.26.8-bookworm AS build
WORKDIR /src

# The modules are a layer of their own: they are fetched again only when they change.
COPY go.mod go.sum ./
RUN go mod download && go mod verify

COPY activities/ activities/
COPY docker/probe/ docker/probe/
COPY internal/ internal/
COPY ledger/ ledger/
COPY starter/ starter/
COPY worker/ worker/
COPY workflows/ workflows/

ARG TARGETOS
ARG TARGETARCH
ARG VERSION=dev
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" \
    -o /out/ ./worker ./starter ./docker/probe

FROM gcr.io/distroless/static-debian13:nonroot@sha256:e2e927ec666bae08560abb3c55d0659eceabb657f56b6782ab500a9fc7f555e3
COPY --from=build /out/worker /out/starter /out/probe /usr/local/bin/
USER 65532:65532
EXPOSE 9090
ENTRYPOINT ["/usr/local/bin/worker"]
CMD ["run"]
