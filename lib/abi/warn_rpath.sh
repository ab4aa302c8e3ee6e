#!/bin/sh
# warn_rpath.sh FOLDER - run when the build is configured: the installed library finds
# libtorch in FOLDER; say so when other users of this machine cannot get there.
folder=$1
while [ "$folder" != / ] && [ -n "$folder" ]; do
    case $(ls -ld "$folder") in
    d????????[xt]*) ;;
    *)
        echo "an installed libsearchr1.so will look for libtorch in $1, but only the owner" \
            "of $folder can go there, and removing that folder breaks it. To install" \
            "libtorch too: -Dbundle_torch=copy (0.5 GB) or link"
        exit 0
        ;;
    esac
    folder=$(dirname "$folder")
done
exit 0
