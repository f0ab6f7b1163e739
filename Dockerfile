# One image for every node of a grid, and for the command that talks to it.
#
#   docker build -t xavantes .
#   docker run --rm xavantes run examples/find-primes.xml -p min=1 -p max=100 -p numPrimes=1000 -p numActs=8
#
# Needs BuildKit, which is the default since Docker 23.

FROM rust:1.95-bookworm AS build
# A C++ compiler for the embedded Lua, make for the allocator.
RUN apt-get update && apt-get install -y --no-install-recommends g++ make && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
# The builder's cache keeps dependencies between builds. All sources get the current time: otherwise Cargo could take
# artefacts of another working copy in that cache for newer than the sources.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target,sharing=locked \
    find . -path ./target -prune -o -type f -exec touch {} + \
    && cargo build --profile dist --locked --package xavantes \
    && install -D target/dist/xavantes /out/xavantes
# The line tables go into a file of their own, to which the binary refers. Function names stay in the binary for backtraces.
RUN cd /out \
    && objcopy --only-keep-debug xavantes xavantes.debug \
    && objcopy --strip-debug --add-gnu-debuglink=xavantes.debug xavantes

# docker build --target debug --output . . writes xavantes.debug.
FROM scratch AS debug
COPY --from=build /out/xavantes.debug /

FROM debian:bookworm-slim
# The client for data sources on the web needs certificates, even for sources without encryption.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates libstdc++6 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --user-group --no-create-home --shell /usr/sbin/nologin xavantes \
    && install -d -o xavantes -g xavantes -m 0700 /var/lib/xavantes
COPY LICENSE-APACHE LICENSE-MIT /usr/share/doc/xavantes/
COPY examples /xavantes/examples
COPY --from=build /out/xavantes /usr/local/bin/xavantes
WORKDIR /xavantes
USER xavantes

# The node listens on all addresses of the container. XAVANTES_ADVERTISE=NAME:7433 is its address for other nodes.
ENV XAVANTES_LISTEN=0.0.0.0:7433
EXPOSE 7433

# The data directory outlives the container.
ENV XAVANTES_DATA_DIR=/var/lib/xavantes
VOLUME /var/lib/xavantes

# A node is healthy when it serves and its group knows it. A node without the role group-manager asks a manager:
# XAVANTES_COORDINATOR=MANAGER:7433.
HEALTHCHECK --interval=10s --timeout=8s --start-period=20s --retries=3 \
    CMD xavantes health --coordinator 127.0.0.1:7433 && xavantes nodes | grep -q "^${XAVANTES_NAME:-$(hostname)} "

# Running activities get XAVANTES_DRAIN_SECONDS (30) to end, and programs XAVANTES_GRACE_SECONDS (5) more. Stop with a longer
# time-out than that.
STOPSIGNAL SIGTERM
ENTRYPOINT ["xavantes"]
CMD ["node"]
