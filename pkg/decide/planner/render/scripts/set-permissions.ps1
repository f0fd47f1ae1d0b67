# Leaves files and directories of RKE2 to administrators and the system, where the access list holds anyone else.

$owner = New-Object System.Security.Principal.NTAccount("BUILTIN", "Administrators")
$group = New-Object System.Security.Principal.NTAccount("NT AUTHORITY", "SYSTEM")
$allowed = @($owner.Value, $group.Value)

function Restrict-Access {
    param([string]$Path, [bool]$Directory)

    if (-not (Test-Path -Path $Path)) { return }
    $acl = Get-Acl -Path $Path
    $others = @($acl.Access | Where-Object { $allowed -notcontains $_.IdentityReference.Value })
    if ($others.Count -eq 0) { return }

    $inherit = [System.Security.AccessControl.InheritanceFlags]::None
    if ($Directory) {
        $inherit = [System.Security.AccessControl.InheritanceFlags]"ContainerInherit,ObjectInherit"
    }
    $none = [System.Security.AccessControl.PropagationFlags]::None

    $acl.SetAccessRuleProtection($true, $false)
    foreach ($rule in @($acl.Access)) { [void]$acl.RemoveAccessRule($rule) }
    foreach ($who in @($owner, $group)) {
        $acl.AddAccessRule((New-Object System.Security.AccessControl.FileSystemAccessRule($who, "FullControl", $inherit, $none, "Allow")))
    }
    $acl.SetOwner($owner)
    $acl.SetGroup($group)
    Set-Acl -Path $Path -AclObject $acl
    Write-Host "restricted access to $Path"
}

foreach ($file in @(
        "c:\etc\rancher\wins\config",
        "c:\etc\rancher\node\password",
        "c:\var\lib\rancher\agent\rancher2_connection_info.json",
        "c:\etc\rancher\rke2\config.yaml.d\50-rancher.yaml",
        "c:\usr\local\bin\rke2.exe")) {
    Restrict-Access -Path $file -Directory $false
}
foreach ($directory in @("c:\var\lib\rancher\capr", "c:\var\lib\rancher\agent", "c:\var\lib\rancher\rke2")) {
    Restrict-Access -Path $directory -Directory $true
}
