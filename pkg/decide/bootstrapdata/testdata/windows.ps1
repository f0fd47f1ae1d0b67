param([String]$Token)
function Invoke-WinsInstaller { }

$env:HTTPS_PROXY='http://it''s:3128'
$env:VERBOSE=$true
$env:DEBUG=$false
$env:CATTLE_AGENT_VAR_DIR='/data/agent'
$env:STRICT_VERIFY=$true
$env:CATTLE_AGENT_BINARY_BASE_URL='https://drover.example.org/assets'
$env:CATTLE_SERVER='https://drover.example.org'
$env:CATTLE_CA_CHECKSUM='0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a'
$env:CATTLE_ROLE_NONE='true'
$env:CATTLE_TOKEN='MfM2hNIlcy2Va6jmhL7EtCt6-G9o-75GEmomHbmvw3I='
$env:CSI_PROXY_URL='https://drover.example.org/assets/csi-proxy-v1.tar.gz'
$env:CSI_PROXY_VERSION='v1'
$env:CSI_PROXY_KUBELET_PATH='C:/var/lib/rancher/rke2/bin/kubelet.exe'

Invoke-WinsInstaller @PSBoundParameters
exit 0
