// Package leastprivilege runs Drover as the chart installs it, with the arguments of its Deployment and the rights of
// its service account. It compares the rules of the chart's roles with Drover's requests to the API server. The API
// server must reject no request. The stories here, or those in memory under the same roles, must use every permission.
// The exceptions are listed here. An exception that the stories do use fails the test, unless it is listed as used only
// at times.
//
// Most other stories on a real API server also expect no rejection: they run Drover with the same account
// (stage.AccountConfig), and fail for each rejected request. In some stories Drover is an administrator. Either it
// installs its webhooks itself, which the chart does otherwise (packages admission and tenancy,
// stage.Settings.Admission). Or it runs inside a host and has the host's rights (package outside).
//
// The rules are generated from the same record, into charts/drover/files/rights.yaml:
//
//	make build && go -C tests test -count=1 ./contract/leastprivilege -update
//
// permits everything to Drover and records what it needs. A run without -update must then pass.
package leastprivilege
