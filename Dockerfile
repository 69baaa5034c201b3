# Builds cfiber on a plain Debian and runs its tests:
#
#	docker build -t cfiber . && docker run --rm cfiber
#
# A container for a program that uses cfiber needs none of this, only Go and a C compiler.
FROM debian:bookworm

# Debian's own Go is too old.
COPY --from=golang:1.26-bookworm /usr/local/go /usr/local/go
ENV PATH=/usr/local/go/bin:$PATH

# For the module proxy: a plain Debian trusts nobody.
RUN apt-get update -q && apt-get install -q -y --no-install-recommends ca-certificates

# What changes least comes first, so that an edit of the code repeats only the last steps.
WORKDIR /cfiber
COPY build.sh ./
COPY scripts scripts
RUN ./build.sh deps
COPY go.mod go.sum ./
RUN go mod download

COPY . .
RUN ./build.sh lib && go build ./...
CMD ["./build.sh", "test"]
