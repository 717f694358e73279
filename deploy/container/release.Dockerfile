# The image of a release: like Dockerfile, but with the binaries that goreleaser has built.
FROM gcr.io/distroless/static-debian12:nonroot
ARG TARGETPLATFORM
COPY $TARGETPLATFORM/replicator /replicator
LABEL org.opencontainers.image.title=replicator
LABEL org.opencontainers.image.description="Moves live DynamoDB tables to Cloud Bigtable"
LABEL org.opencontainers.image.source=https://github.com/dynamodb-bigtable/replicator
LABEL org.opencontainers.image.licenses=Apache-2.0
# The default is the loopback. Probes of a container come from outside.
ENV REPLICATOR_HTTP_LISTEN=:8080
EXPOSE 8080
ENTRYPOINT ["/replicator"]
CMD ["run"]
