#!/usr/bin/env bash
# Keeps the source of a release here, from which the test of rolling upgrades builds raftkv, and names its commit in
# CHANGELOG.md:
#
#   make previous VERSION=v0.1.0 COMMIT=<the commit that was released>
set -euo pipefail
cd "$(dirname "$0")/../.."
fail() { echo "make previous: $*" >&2; exit 1; }

[[ ${1:-} =~ ^v[0-9]+\.[0-9]+\.[0-9]+$ && -n ${2:-} ]] || fail "it takes VERSION=v0.1.0 COMMIT=<the commit that was released>"
version=$1
commit=$(git rev-parse --verify --quiet "$2^{commit}") || fail "there is no commit $2 here"
grep -qE "^## $version( |$)" CHANGELOG.md || fail "CHANGELOG.md has no release $version"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Only what raftkv is built from, on any system.
mkdir "$work/all" "$work/kept"
git archive "$commit" | tar -x -C "$work/all"
directories=$(for system in linux darwin windows; do
	(cd "$work/all" && GOOS=$system GOWORK=off go list -deps -f '{{with .Module}}{{if .Main}}{{$.Dir}}{{end}}{{end}}' ./cmd/raftkv)
done | sed "s|^$work/all||" | sort -u)
paths=(go.mod go.sum LICENSE)
for directory in $directories; do paths+=(":(glob)${directory#/}/*.go"); done
paths+=(":(glob)*.go" ':!*_test.go')
git archive "$commit" -- "${paths[@]}" | tar -x -C "$work/kept"
(cd "$work/kept" && GOWORK=off GOFLAGS=-buildvcs=false go build -o "$work/raftkv" ./cmd/raftkv) ||
	fail "$version does not build from what would be kept of it"

rm -f compat/previous/*.zip
git archive --format=zip -9 -o "compat/previous/$version.zip" "$commit" -- "${paths[@]}"
sum=$( (sha256sum "compat/previous/$version.zip" || shasum -a 256 "compat/previous/$version.zip") 2>/dev/null | cut -d' ' -f1)
printf '{\n  "version": "%s",\n  "commit": "%s",\n  "sha256": "%s"\n}\n' "$version" "$commit" "$sum" > compat/previous/release.json

awk -v version="$version" -v commit="$commit" '
	$1 == "##" && $2 == version {
		sub(/,? *commit [0-9a-f]*\)/, ")"); sub(/ *\(\)/, "")
		if (sub(/\)$/, ", commit " commit ")") == 0) $0 = $0 " (commit " commit ")"
	}
	{ print }' CHANGELOG.md > "$work/changes"
cat "$work/changes" > CHANGELOG.md
git status --short compat/previous CHANGELOG.md
