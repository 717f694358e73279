# The image of a release: like Dockerfile, but with the binaries that goreleaser has built.
FROM gcr.io/distroless/static-debian12:nonroot
ARG TARGETPLATFORM
COPY $TARGETPLATFORM/replicator /replicator
# The default is the loopback. Probes of a container come from outside.
ENV REPLICATOR_HTTP_LISTEN=:8080
EXPOSE 8080
ENTRYPOINT ["/replicator"]
CMD ["run"]
