# One image for every node of a grid, and for the command that talks to it.
#
#   docker build -t xavantes .
#   docker run --rm xavantes run examples/find-primes.xml -p min=1 -p max=100 -p numPrimes=1000 -p numActs=8
#
# Needs BuildKit, which is the default since Docker 23.

FROM rust:1.95-bookworm AS build
WORKDIR /source
COPY . .
# Downloaded and compiled dependencies stay in the builder's cache between builds. The sources get the time of now, lest
# Cargo takes what another working copy has left in that cache for newer than they are.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target,sharing=locked \
    find . -path ./target -prune -o -type f -exec touch {} + \
    && cargo build --release --locked --package xavantes \
    && install -D target/release/xavantes /out/xavantes
# The names of functions stay, for backtraces; their lines would be five sixths of the file.
RUN strip --strip-debug /out/xavantes

FROM debian:bookworm-slim
# Data sources on the web need certificates, even those without encryption.
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

# Reachable from outside the container; where others find it has to be told: XAVANTES_ADVERTISE=NAME:7433.
ENV XAVANTES_LISTEN=0.0.0.0:7433
EXPOSE 7433

# What must outlive the container.
ENV XAVANTES_DATA_DIR=/var/lib/xavantes
VOLUME /var/lib/xavantes

# Healthy is a node that serves, and that its group knows. A node that is no group manager asks one:
# XAVANTES_COORDINATOR=MANAGER:7433.
HEALTHCHECK --interval=10s --timeout=8s --start-period=20s --retries=3 \
    CMD xavantes health --coordinator 127.0.0.1:7433 && xavantes nodes | grep -q "^${XAVANTES_NAME:-$(hostname)} "

# Running activities get XAVANTES_DRAIN_SECONDS (30) to end, and programs XAVANTES_GRACE_SECONDS (5) more: stop with more
# patience than that.
STOPSIGNAL SIGTERM
ENTRYPOINT ["xavantes"]
CMD ["node"]
