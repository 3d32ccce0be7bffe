#!/bin/sh
# git under the malloc: the history of this repository where it is there, and a small repository made, packed and
# checked. The first argument is the folder of this repository.
set -eu
export GIT_CONFIG_NOSYSTEM=1 HOME="$PWD" LC_ALL=C
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_AUTHOR_DATE='2020-01-01T00:00:00Z'
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
git config --global safe.directory '*'

if head=$(git -C "$1" rev-parse HEAD 2>/dev/null); then
    git -C "$1" --no-pager log --stat --max-count=60 "$head" | cksum
fi
git init --quiet --initial-branch=main small
cd small
round=0
while [ "$round" -lt 10 ]; do
    seq "$round" $((2000 + round * 50)) >"file $((round % 4))"
    git add .
    git commit --quiet --message="round $round"
    round=$((round + 1))
done
git checkout --quiet -b side HEAD~4
seq 9000 >other
git add other
git commit --quiet --message=other
git merge --quiet --no-edit main >said
git gc --quiet --aggressive
git fsck --full --strict
git rev-parse HEAD
git --no-pager log --oneline --graph
git --no-pager diff --stat HEAD~3 HEAD
