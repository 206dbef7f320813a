#!/bin/sh
# Starts the command with the Node beside it. A machine that cannot run it gets one sentence and status 126.
self=$0
while [ -L "$self" ]; do
  link=$(readlink "$self")
  case $link in
    /*) self=$link ;;
    *) self=${self%/*}/$link ;;
  esac
done
case $self in */*) ;; *) self=./$self ;; esac
lib=${self%/*}/../lib

if [ ! -e "@LOADER@" ]; then
  echo "holdfast: this build is for @MACHINE@ with glibc; this machine is $(uname -sm) and has no @LOADER@" >&2
  exit 126
fi
glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null)
glibc=${glibc#glibc }
needed=@GLIBC@
case $glibc in
  [0-9]*.[0-9]*)
    rest=${glibc#*.}
    if [ "${glibc%%.*}" -lt "${needed%%.*}" ] ||
      { [ "${glibc%%.*}" -eq "${needed%%.*}" ] && [ "${rest%%.*}" -lt "${needed#*.}" ]; }; then
      echo "holdfast: this build needs glibc $needed or newer; this machine has $glibc" >&2
      exit 126
    fi
    ;;
esac
exec "$lib/node" "$lib/holdfast/dist/command.mjs" "$@"
