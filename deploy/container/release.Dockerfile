# The image of a release: that of Dockerfile, around the binaries that goreleaser has built.
FROM gcr.io/distroless/static-debian12:nonroot
ARG TARGETPLATFORM
COPY $TARGETPLATFORM/replicator /replicator
# Loopback is the default for people; a container's probes come from outside.
ENV REPLICATOR_HTTP_LISTEN=:8080
EXPOSE 8080
ENTRYPOINT ["/replicator"]
CMD ["run"]
