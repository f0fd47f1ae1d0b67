#!/usr/bin/env sh
export HTTPS_PROXY='http://it'\''s:3128'
export VERBOSE='true'
export CATTLE_AGENT_VAR_DIR='/data/agent'
export STRICT_VERIFY='true'
export CATTLE_AGENT_BINARY_BASE_URL='https://drover.example.org/assets'
export CATTLE_SERVER='https://drover.example.org'
export CATTLE_CA_CHECKSUM='0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a'
export CATTLE_ROLE_NONE='true'
export CATTLE_TOKEN='MfM2hNIlcy2Va6jmhL7EtCt6-G9o-75GEmomHbmvw3I='

echo installing
