#!/bin/sh
# Takes one step of a rotation, unless an earlier run that was killed has taken it already: the distribution refuses a step
# that it is past.
#
#   secrets_encrypt_step.sh RUNTIME COMMAND STAGE...

runtime=$1
command=$2
shift 2

stage=$(timeout 60 "$runtime" secrets-encrypt status | sed -n 's/^Current Rotation Stage: *//p')
for reached in "$@"; do
	if [ "$stage" = "$reached" ]; then
		echo "the stage is $stage already"
		exit 0
	fi
done
exec timeout 300 "$runtime" secrets-encrypt "$command"
