# docker build --build-arg VERSION=v1.2.3 --build-arg REVISION=$(git rev-parse HEAD) -t taskbridge .
#
# docs/deploy/dockerfile-steps runs these steps without docker.
FROM golang:1.26.8 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=devel
ARG REVISION=
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$VERSION -X main.revision=$REVISION" -o /out/taskbridge ./cmd/taskbridge

# Nothing but the program and the authorities it trusts: it can stand before servers behind a URL. For
# servers that are a command (-- CMD) copy the program into an image that has the command.
FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/taskbridge /taskbridge
USER 65532:65532
ENV TASKBRIDGE_LISTEN=0.0.0.0:8080
EXPOSE 8080
ENTRYPOINT ["/taskbridge"]
CMD ["serve"]
