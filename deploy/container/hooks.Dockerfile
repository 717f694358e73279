# For cutover hooks that are commands: adds a shell and flock to the image of a release or of Dockerfile. Build it beside
# your hooks:
#   docker build -f deploy/container/hooks.Dockerfile --build-arg REPLICATOR=REGISTRY/replicator:VERSION -t REGISTRY/replicator-hooks:VERSION hooks
ARG REPLICATOR=replicator:dev
FROM ${REPLICATOR} AS replicator

FROM alpine:3.22
RUN apk add --no-cache ca-certificates
COPY --from=replicator /replicator /replicator
COPY --chmod=755 . /hooks/
USER 65532:65532
ENV REPLICATOR_HTTP_LISTEN=:8080
EXPOSE 8080
ENTRYPOINT ["/replicator"]
CMD ["run"]
