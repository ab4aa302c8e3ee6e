#!/bin/sh
# warn_rpath.sh FOLDER - run by `meson install`: the installed library finds libtorch in
# FOLDER; say so when other users of this machine cannot get there.
folder=$1
while [ "$folder" != / ] && [ -n "$folder" ]; do
    case $(ls -ld "$folder") in
    d????????[xt]*) ;;
    *)
        echo "warning: libsearchr1.so looks for libtorch in $1, but only the owner of" \
            "$folder can go there. For other users: move libtorch to a shared place," \
            "configure with -Dtorch_dir= and install again."
        exit 0
        ;;
    esac
    folder=$(dirname "$folder")
done
exit 0
