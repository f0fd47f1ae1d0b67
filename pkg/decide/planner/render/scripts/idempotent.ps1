# Runs a command until it has succeeded once, and never again after that.
#
#   idempotent.ps1 KEY TARGET_HASH COMMAND_HASH COMMAND BASE_DIR [ARG...]
#
# KEY names the operation, TARGET_HASH what it was asked for, COMMAND_HASH the command. Start and success are recorded apart,
# so that a command that was killed half-way runs again and one that succeeded does not.

$key, $target, $hash, $command, $base = $args[0..4]
$rest = @($args | Select-Object -Skip 5)

$dir = "$base\idempotence\$key\$hash\$target"

if (Test-Path "$dir\succeeded") {
    Write-Host "$key has succeeded before for this request, nothing to do"
    exit 0
}

New-Item -Path $dir -ItemType Directory -Force -ErrorAction Stop | Out-Null
$attempt = $env:CATTLE_AGENT_ATTEMPT_NUMBER
if (-not $attempt) { $attempt = "-1" }
Set-Content -Path "$dir\last-attempt" -Value $attempt -ErrorAction Stop

$line = $command
if ($rest.Count -gt 0) {
    $line = "$command '" + ($rest -join " ").Replace("'", "''") + "'"
}
$global:LASTEXITCODE = 0
try {
    Invoke-Expression -Command $line -ErrorAction Stop
} catch {
    Write-Host $_
    exit 1
}
if ($LASTEXITCODE -ne 0) { exit $LASTEXITCODE }

Set-Content -Path "$dir\succeeded.tmp" -Value ""
Move-Item -Path "$dir\succeeded.tmp" -Destination "$dir\succeeded" -Force
